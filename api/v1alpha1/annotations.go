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
	// Drain takes a disk out of use. The disk stays out of use as long as the annotation exists; the value of the
	// annotation does not matter. The files on the disk are kept.
	Drain Verb = "drain"
	// Readmit puts a repaired disk into use again. The value is the time of the request (RFC 3339). The operator replaces
	// the pod, or the placeholder of the disk, if it is older than the request.
	Readmit Verb = "readmit"
	// Replace gives a disk another volume. The value is the time of the request (RFC 3339). The operator deletes the
	// disk's claim if the claim is older than the request.
	Replace Verb = "replace"
)

const verbDomain = ".cachenode.io/"

// Annotation returns the key of the annotation for a disk of a pod.
func (v Verb) Annotation(pod, disk string) string { return string(v) + verbDomain + pod + "." + disk }

// ParseVerb splits the key of an annotation into verb, pod and disk. ok is false if the key contains no verb.
func ParseVerb(key string) (verb Verb, pod, disk string, ok bool) {
	prefix, target, found := strings.Cut(key, verbDomain)
	switch verb = Verb(prefix); {
	case !found, verb != Drain && verb != Readmit && verb != Replace:
		return "", "", "", false
	}
	pod, disk, _ = strings.Cut(target, ".")
	return verb, pod, disk, true
}
