package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// CachePolicy defines how the responses of HTTPRoutes are cached. Without a policy, a route is a plain shared cache
// (RFC 9111): only responses that the origin marks as fresh are stored.
//
// A policy applies to the objects that its targetRefs name: to all routes of a Gateway or of a listener, to a route, or
// to a named rule of a route. If several policies apply to a rule, only the nearest one counts, as a whole: the policy
// of the rule, then of the route, then of the listener, then of the Gateway (GEP-713).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cpol,categories=all
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Inherited"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.ancestors[*].conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.ancestors[*].conditions[?(@.type=="cachenode.io/Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CachePolicy struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the rules, and to what they apply.
	// +required
	Spec CachePolicySpec `json:"spec"`

	// status says for each Gateway whether the policy is accepted, and whether the pods follow it.
	// +optional
	Status gw.PolicyStatus `json:"status,omitempty"`
}

// CachePolicyList is a list of CachePolicies.
//
// +kubebuilder:object:root=true
type CachePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CachePolicy `json:"items"`
}

// CachePolicySpec defines rules, and to what they apply.
type CachePolicySpec struct {
	// targetRefs are the objects to which the policy applies, in the namespace of the policy. group is
	// gateway.networking.k8s.io, and kind is Gateway or HTTPRoute. sectionName is the name of a listener of the Gateway,
	// or of a rule of the HTTPRoute; unset means all of them. If several policies name the same object, the oldest one
	// counts, and the others are not accepted. 1 to 16.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.group == 'gateway.networking.k8s.io' && r.kind in ['Gateway', 'HTTPRoute'])",message="targetRefs: group must be gateway.networking.k8s.io, and kind must be Gateway or HTTPRoute"
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(o, o.kind == r.kind && o.name == r.name && (has(o.sectionName) ? o.sectionName : '') == (has(r.sectionName) ? r.sectionName : '')))",message="targetRefs: names an object twice"
	TargetRefs []gw.LocalPolicyTargetReferenceWithSectionName `json:"targetRefs"`

	CacheRules `json:",inline"`
}
