package gateways

import (
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// supportedVersions matches the versions of the Gateway API whose CustomResourceDefinitions are supported.
var supportedVersions = regexp.MustCompile(`^v1\.[56]\.`)

// features are the features of the Gateway API that are supported, sorted by name.
var features = []gw.FeatureName{
	"Gateway", "GatewayHTTPSListenerDetectMisdirectedRequests", "GatewayPort8080", "HTTPRoute",
	"HTTPRouteMethodMatching", "HTTPRouteParentRefPort",
	"HTTPRoutePortRedirect", "HTTPRouteQueryParamMatching", "HTTPRouteSchemeRedirect", "ReferenceGrant",
}

// ClassStatus returns the status of a GatewayClass of this controller. cacheNode is the CacheNode to which the class
// refers; nil if it does not exist. version is the version of the installed CustomResourceDefinitions; "" if it is not
// known.
func ClassStatus(class *gw.GatewayClass, cacheNode *v1alpha1.CacheNode, version string) gw.GatewayClassStatus {
	var refused, unsupported *problem
	if missing := FleetFor(FleetOf(class), cacheNode, "").Missing; missing != "" {
		refused = problemf(gw.GatewayClassReasonInvalidParameters, "spec.parametersRef: %s", missing)
	}
	if version != "" && !supportedVersions.MatchString(version) {
		unsupported = problemf(gw.GatewayClassReasonUnsupportedVersion,
			"the CustomResourceDefinitions of the Gateway API have version %s: install v1.5 or v1.6", version)
	}
	supported := unless(unsupported, gw.GatewayClassConditionStatusSupportedVersion, gw.GatewayClassReasonSupportedVersion,
		class.Generation)
	if version == "" {
		supported.Status, supported.Reason = metav1.ConditionUnknown, "VersionUnknown"
		supported.Message = "the version of the CustomResourceDefinitions of the Gateway API cannot be read"
	}
	accepted := unless(refused, gw.GatewayClassConditionStatusAccepted, gw.GatewayClassReasonAccepted, class.Generation)
	if refused == nil && !class.DeletionTimestamp.IsZero() {
		accepted.Message = "the class is being deleted, and stays until no Gateway names it"
	}
	status := gw.GatewayClassStatus{Conditions: []metav1.Condition{accepted, supported}}
	for _, f := range slices.Sorted(slices.Values(features)) {
		status.SupportedFeatures = append(status.SupportedFeatures, gw.SupportedFeature{Name: f})
	}
	return status
}
