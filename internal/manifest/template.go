package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// PodInput is the part of the spec from which the pod template is made. An edit of the spec restarts the pods only if
// it changes PodInput. PodInput contains nothing that a reload of nginx can change. A field that is added to PodInput
// later must be empty for a CacheNode that does not use it. Otherwise an upgrade of the operator would restart every
// pod.
type PodInput struct {
	Name  string         `json:"name"`
	Pod   v1alpha1.Pod   `json:"pod"`
	Disks []TemplateDisk `json:"disks"`
	// Port and ReusePort are here because a listening socket that changes its kind under load loses connections.
	Port      int32 `json:"port"`
	ReusePort bool  `json:"reusePort"`
	// WorkersPerCPU is io.workersPerCPU if io.mode is Workers, and 0 otherwise. A reload with fewer workers would close
	// listening sockets.
	WorkersPerCPU int32 `json:"workersPerCPU,omitempty"`
	// TLS adds a volume and a port.
	TLS *v1alpha1.ListenTLS `json:"tls,omitempty"`
	// Restart is the value of v1alpha1.AnnotationRestart.
	Restart string `json:"restart,omitempty"`
	// PerNode keeps the pods of this CacheNode on different nodes.
	PerNode bool `json:"perNode,omitempty"`
	// MemoryTier is the size of the volume for the memory tier, in bytes; 0 for no memory tier.
	MemoryTier int64 `json:"memoryTier,omitempty"`
	// Peers defines how pods connect to each other with routing.mode Sharded; "" with another mode. It adds ports and,
	// for Mutual, a volume.
	Peers v1alpha1.PeerTLS `json:"peers,omitempty"`
	// Namespace is the namespace of the CacheNode if a claim selects its volumes by it; otherwise "".
	Namespace string `json:"namespace,omitempty"`
	// Gateways is true if Gateways may use the pods. The agents of pods that are older than this field do not know routes.
	Gateways bool `json:"gateways,omitempty"`
}

// TemplateDisk contains the fields of a disk from which the pod template is made.
type TemplateDisk struct {
	Name string `json:"name"`
	// Size and KeysZone come from the spec, in bytes. KeysZone is 0 if the spec does not set it, so that package effective
	// chooses the value. With another size, nginx would begin a new, empty index. Values that the operator derives from
	// these fields are not here. A later operator may derive better values, and that must not restart pods.
	Size     int64 `json:"size"`
	KeysZone int64 `json:"keysZone,omitempty"`
	// Class and LocalPath are used for the claim.
	Class     *string `json:"class,omitempty"`
	LocalPath string  `json:"localPath,omitempty"`
}

// NewPodInput returns the input of a CacheNode's pod template.
func NewPodInput(cacheNode effective.CacheNode) PodInput {
	in := PodInput{
		Name: cacheNode.Name, Pod: cacheNode.Spec.Pod,
		Port: ptr.Deref(cacheNode.Spec.Listen.Port, 0), ReusePort: ptr.Deref(cacheNode.Spec.Listen.ReusePort, true),
		TLS:     podTLS(cacheNode.Spec.Listen.TLS),
		Restart: cacheNode.Annotations[v1alpha1.AnnotationRestart],
		PerNode: cacheNode.Spec.Placement.PerNode, Gateways: cacheNode.Spec.Gateways != nil,
	}
	if cacheNode.Spec.IO.Mode == v1alpha1.IOWorkers {
		in.WorkersPerCPU = effective.Workers(cacheNode.Spec.IO, 1)
	}
	if cacheNode.Spec.Routing.Mode == v1alpha1.RoutingSharded {
		in.Peers = cmp.Or(cacheNode.Spec.Routing.TLS, v1alpha1.PeerTLSMutual)
	}
	if effective.HasMemoryTier(cacheNode.Spec) {
		in.MemoryTier = cacheNode.Spec.MemoryTier.Size.Value()
	}
	for _, d := range cacheNode.Spec.Disks {
		disk := TemplateDisk{Name: d.Name, Size: d.Size.Value(), Class: d.StorageClassName}
		if d.LocalPath != nil {
			disk.LocalPath, in.Namespace = d.LocalPath.Path, cacheNode.Namespace
		}
		if d.Cache.KeysZone != nil {
			disk.KeysZone = d.Cache.KeysZone.Value()
		}
		in.Disks = append(in.Disks, disk)
	}
	slices.SortFunc(in.Disks, func(a, b TemplateDisk) int { return strings.Compare(a.Name, b.Name) })
	return in
}

// podTLS returns the part of the TLS settings that the pods are made from. The HTTP versions are left out, because
// nginx switches them on and off by a reload.
func podTLS(tls *v1alpha1.ListenTLS) *v1alpha1.ListenTLS {
	if tls == nil {
		return nil
	}
	return &v1alpha1.ListenTLS{SecretName: tls.SecretName, Port: tls.Port}
}

// NeedsNewPods returns true if a running nginx cannot change from revision a to revision b by a reload, or would lose
// its index by the reload.
func NeedsNewPods(a, b agentapi.Revision) bool {
	of := func(n agentapi.Revision) PodInput {
		cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace}, Spec: n.Spec}
		return NewPodInput(effective.CacheNode{CacheNode: cacheNode}).canonical()
	}
	return !reflect.DeepEqual(of(a), of(b))
}

func (in PodInput) keysZones() int64 {
	var sum int64
	for _, d := range in.Disks {
		disk := v1alpha1.Disk{Size: *resource.NewQuantity(d.Size, resource.BinarySI)}
		if d.KeysZone > 0 {
			disk.Cache.KeysZone = resource.NewQuantity(d.KeysZone, resource.BinarySI)
		}
		sum += effective.KeysZone(disk)
	}
	return sum
}

// canonical returns the input with [effective.FormerImage] in place of an empty image. An empty image and this image
// count as the same input, so that neither an upgrade of the operator nor a rollback replaces pods.
func (in PodInput) canonical() PodInput {
	in.Pod.Image = cmp.Or(in.Pod.Image, effective.FormerImage)
	return in
}

// Hash returns a hash that identifies the input.
func (in PodInput) Hash() (string, error) {
	text, err := json.Marshal(in.canonical())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16], nil
}

// Template is a pod template with the claim templates and the hash of their input. The operator stores it on the
// ConfigMap. While the hash stays the same, the template stays the same byte for byte, even if a newer operator would
// make another template from the same input.
type Template struct {
	InputHash string                         `json:"inputHash"`
	Template  corev1.PodTemplateSpec         `json:"template"`
	Claims    []corev1.PersistentVolumeClaim `json:"claims"`
	// Before are the last few earlier templates, the newest first. If an edit is undone while pods of an earlier
	// template still exist, that template returns, and these pods stay.
	Before []Template `json:"before,omitempty"`
}

// templatesBefore is the maximum number of earlier templates that are stored.
const templatesBefore = 2

// Images are the container images that the operator puts into new templates. They are not part of the input: if they
// change, existing pods stay as they are.
type Images struct {
	// Agent is the image that contains the agent. AgentPullPolicy is the pull policy of that image; "" for the cluster's
	// default.
	Agent           string
	AgentPullPolicy corev1.PullPolicy
	// Nginx is the image for a CacheNode that names none in spec.pod.image.
	Nginx string
}

func newTemplate(in PodInput, hash string, images Images, revision string) Template {
	in.Pod.Image = cmp.Or(effective.NamedImage(in.Pod), images.Nginx)
	return Template{
		InputHash: hash,
		Template:  podTemplate(in, hash, images, revision),
		Claims:    claimTemplates(in),
	}
}

// NewTemplate returns the template to be applied. previous is the text of the last template from the ConfigMap; pods
// are the input hashes of the existing pods. If previous was made from the same input, NewTemplate returns it.
// Otherwise, it returns an earlier template that was made from the same input, if some pod that was created from that
// template still exists. Otherwise, it makes a new template with the given images. The pods of the new template start
// with the given revision if that revision is offered. changed is false if previous stays.
func NewTemplate(
	in PodInput, previous string, pods []string, images Images, revision string,
) (t Template, changed bool, err error) {
	hash, err := in.Hash()
	if err != nil {
		return Template{}, false, err
	}
	if json.Unmarshal([]byte(previous), &t) != nil || t.InputHash == "" {
		return newTemplate(in, hash, images, revision), true, nil
	}
	if t.InputHash == hash {
		return t, false, nil
	}
	next := newTemplate(in, hash, images, revision)
	others := append([]Template{{InputHash: t.InputHash, Template: t.Template, Claims: t.Claims}}, t.Before...)
	for _, other := range others {
		if other.InputHash == hash && slices.Contains(pods, hash) {
			next = other
		}
	}
	others = slices.DeleteFunc(others, func(o Template) bool { return o.InputHash == hash })
	next.Before = others[:min(len(others), templatesBefore)]
	return next, true, nil
}

// Makeable returns the template that the StatefulSet must have now: the newest template from which the StatefulSet
// controller can create the missing pods. It chooses among t and the earlier templates, and returns t if none fits.
// While a pod lacks a volume of the template, the controller creates no missing pod with a higher ordinal. It first
// tries to add the volume to that pod, which no API server allows. volumes lists the volumes of each pod by ordinal.
// A pod that is being deleted counts as missing.
func (t Template) Makeable(volumes map[int][]string, replicas int) Template {
	for _, candidate := range append([]Template{t}, t.Before...) {
		if !candidate.isBlocked(volumes, replicas) {
			return candidate
		}
	}
	return t
}

func (t Template) isBlocked(volumes map[int][]string, replicas int) bool {
	for ordinal, lacking := 0, false; ordinal < replicas; ordinal++ {
		has, exists := volumes[ordinal]
		if !exists && lacking {
			return true
		}
		lacking = lacking || exists && t.isLacking(has)
	}
	return false
}

// IsOrdered returns true while a pod lacks a volume of the template. The pods can then be created only in ascending
// order.
func (t Template) IsOrdered(volumes map[int][]string) bool {
	for _, has := range volumes {
		if t.isLacking(has) {
			return true
		}
	}
	return false
}

func (t Template) isLacking(volumes []string) bool {
	return slices.ContainsFunc(t.Claims, func(c corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(volumes, c.Name)
	})
}
