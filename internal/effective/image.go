package effective

import "github.com/cachenode/cachenode-operator/api/v1alpha1"

// FormerImage was the default of spec.pod.image. API servers with a CRD from before 0.2.0 have stored it in all
// CacheNodes that name no image. Nothing distinguishes these CacheNodes from CacheNodes that name this image.
const FormerImage = "docker.io/library/nginx:1.30"

// NamedImage returns the nginx image that a CacheNode names. It returns "" if the CacheNode names none: new pods then
// get the operator's image. It also returns "" for [FormerImage], so that a CacheNode from before the operator had an
// image gets the operator's image too.
func NamedImage(pod v1alpha1.Pod) string {
	if pod.Image == FormerImage {
		return ""
	}
	return pod.Image
}
