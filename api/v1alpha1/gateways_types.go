package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Gateways lets Gateways of the Gateway API use the pods and disks of a CacheNode. A Gateway belongs to the CacheNode
// if the parametersRef of its GatewayClass names the CacheNode and the class has the controllerName
// cachenode.io/gateway.
type Gateways struct {
	// allowedNamespaces says in which namespaces such a Gateway may be. Gateways in other namespaces are not accepted.
	// Each Gateway itself says which namespaces may attach routes (listeners.allowedRoutes).
	// +optional
	// +kubebuilder:default={}
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitempty"`

	// ports is the range of the ports on which the pods listen for Gateways. Each port of each Gateway takes one of
	// them. If from of allowedNamespaces is not Same, the Gateways of one namespace get at most a quarter of the ports.
	// Clients never see these ports: the Service of a Gateway has the port that the listener names. The NetworkPolicies of
	// the chart must allow them (networkPolicy.gatewayPorts).
	// +optional
	// +kubebuilder:default={from: 20000, to: 20999}
	Ports PortRange `json:"ports,omitempty"`

	// maxRoutes is the maximum number of HTTPRoutes. If there are more, the newest ones are not accepted. Range 1 to
	// 5000, default 2000.
	// +optional
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	MaxRoutes *int32 `json:"maxRoutes,omitempty"`

	// maxRoutesPerNamespace is the maximum number of HTTPRoutes of one namespace. So one team cannot use up the routes of
	// all teams. Range 1 to 5000, default 200.
	// +optional
	// +kubebuilder:default=200
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	MaxRoutesPerNamespace *int32 `json:"maxRoutesPerNamespace,omitempty"`
}

// AllowedNamespaces selects namespaces.
//
// +kubebuilder:validation:XValidation:rule="(has(self.from) && self.from == 'Selector') == has(self.selector)",message="allowedNamespaces.selector: set it if from is Selector, and only then"
type AllowedNamespaces struct {
	// from is Same (default), All or Selector. Same means the namespace of the CacheNode.
	// +optional
	// +kubebuilder:default=Same
	From FromNamespaces `json:"from,omitempty"`

	// selector selects namespaces by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// FromNamespaces is Same, All or Selector.
//
// +kubebuilder:validation:Enum=Same;All;Selector
type FromNamespaces string

// The values of FromNamespaces.
const (
	// FromSame is the namespace of the object itself.
	FromSame FromNamespaces = "Same"
	// FromAll means all namespaces.
	FromAll FromNamespaces = "All"
	// FromSelector means the namespaces with certain labels.
	FromSelector FromNamespaces = "Selector"
)

// PortRange is a range of ports. It ends below the ports that Linux uses for outgoing connections
// (net.ipv4.ip_local_port_range), because nginx cannot listen on a port that a connection uses.
//
// +kubebuilder:validation:XValidation:rule="self.to >= self.from && self.to - self.from < 4096",message="ports: to must not be less than from, and a range has at most 4096 ports"
type PortRange struct {
	// from is the first port. Range 10000 to 32767, default 20000.
	// +optional
	// +kubebuilder:default=20000
	// +kubebuilder:validation:Minimum=10000
	// +kubebuilder:validation:Maximum=32767
	From int32 `json:"from,omitempty"`

	// to is the last port. Range 10000 to 32767, default 20999.
	// +optional
	// +kubebuilder:default=20999
	// +kubebuilder:validation:Minimum=10000
	// +kubebuilder:validation:Maximum=32767
	To int32 `json:"to,omitempty"`
}
