package v1alpha1

import "strings"

// Annotations that a user sets on a CacheNode.
const (
	// AnnotationRestart makes the operator replace the pods, one after another, whenever the value of the annotation
	// changes.
	AnnotationRestart = "cachenode.io/restart"
	// AnnotationRetry makes the operator try a refused configuration again, whenever the value of the annotation
	// changes.
	AnnotationRetry = "cachenode.io/retry"
	// AnnotationAcknowledged allows a key movement that is larger than rollout.maxKeyMovement. The value of the
	// annotation is status.keyMovement.name.
	AnnotationAcknowledged = "cachenode.io/acknowledged-key-movement"
)

// Verb is an action on one disk of one pod. A user requests it with the annotation VERB.cachenode.io/POD.DISK on the
// CacheNode.
type Verb string

// The verbs.
const (
	// Drain keeps a disk out of use as long as the annotation exists, whatever its value. The files stay.
	Drain Verb = "drain"
	// Readmit uses a repaired disk again. The value is the time of the request (RFC 3339). The operator replaces a pod or
	// placeholder that is older than the request.
	Readmit Verb = "readmit"
	// Replace gives a disk another volume. The value is the time of the request (RFC 3339). The operator deletes a claim
	// that is older than the request.
	Replace Verb = "replace"
)

const verbDomain = ".cachenode.io/"

// Annotation returns the key of the annotation for a disk of a pod.
func (v Verb) Annotation(pod, disk string) string { return string(v) + verbDomain + pod + "." + disk }

// ParseVerb splits the key of an annotation into verb, pod and disk. ok is false for a key that requests no verb.
func ParseVerb(key string) (verb Verb, pod, disk string, ok bool) {
	prefix, target, found := strings.Cut(key, verbDomain)
	switch verb = Verb(prefix); {
	case !found, verb != Drain && verb != Readmit && verb != Replace:
		return "", "", "", false
	}
	pod, disk, _ = strings.Cut(target, ".")
	return verb, pod, disk, true
}
