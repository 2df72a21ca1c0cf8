package effective

import "github.com/cachenode/cachenode-operator/api/v1alpha1"

// FormerImage was the default of spec.pod.image. API servers with a CRD from before 0.2.0 have stored it in all
// CacheNodes that name no image, and nothing tells those from CacheNodes that name it.
const FormerImage = "docker.io/library/nginx:1.30"

// NamedImage returns the nginx image that a CacheNode names; "" if it names none, and new pods get the operator's.
// [FormerImage] is none: a CacheNode that was created before the operator had an image is to get it too.
func NamedImage(pod v1alpha1.Pod) string {
	if pod.Image == FormerImage {
		return ""
	}
	return pod.Image
}
