package effective

import "github.com/cachenode/cachenode-operator/api/v1alpha1"

// FormerImage is the former default of spec.pod.image. API servers whose CRD is older than 0.2.0 have stored it in
// all CacheNodes whose authors set no image. Such a CacheNode looks the same as a CacheNode whose author set this
// image.
const FormerImage = "docker.io/library/nginx:1.30"

// NamedImage returns the nginx image that a CacheNode names. It returns "" if the CacheNode names no image: new pods
// then get the operator's image. It also returns "" for [FormerImage], so that CacheNodes that are older than the
// operator's image get that image too.
func NamedImage(pod v1alpha1.Pod) string {
	if pod.Image == FormerImage {
		return ""
	}
	return pod.Image
}
