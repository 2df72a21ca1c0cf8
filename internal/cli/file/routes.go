package file

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Routes returns what the operator would decide about the Gateways and routes in the files for a CacheNode. The files
// need not contain everything: warnings say what is assumed about objects that they do not contain.
//
// Only a cluster knows the UIDs of namespaces and routes, which are part of the keys of objects. Other UIDs take their
// places.
func (o Objects) Routes(cacheNode *v1alpha1.CacheNode, clusterDomain string) (
	result gateways.Result, warnings []string,
) {
	name := types.NamespacedName{Namespace: cacheNode.Namespace, Name: cacheNode.Name}
	fleet := gateways.FleetFor(name, cacheNode, clusterDomain)
	a := assumed{Objects: o.Objects}
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(o.Ignored))) {
		a.warn("%s is not supported: such objects have no effect", kind)
	}
	if fleet.Missing != "" {
		if len(o.CacheNodes) == 1 && len(o.Gateways)+len(o.HTTPRoutes)+len(o.Policies) > 0 {
			a.warn("the Gateways, routes and policies have no effect: %s", fleet.Missing)
		}
		return gateways.Result{}, a.warnings
	}
	a.classes(name)
	a.namespaces(&fleet)
	a.uids()
	state := a.State(fleet)
	for _, service := range state.Backends() {
		state.Services[service] = a.service(o, service)
	}
	for _, secret := range state.CertificateRefs() {
		if c, ok := a.certificate(o, secret); ok {
			state.Certificates[secret] = c
		}
	}
	ports := cacheNode.Spec.Gateways.Ports
	state.Ports = state.AssignedPorts(nil, nil, gateways.Range{From: ports.From, To: ports.To})
	result = gateways.Decide(state)
	for i := range o.HTTPRoutes {
		r := &o.HTTPRoutes[i]
		if id := (types.NamespacedName{Namespace: r.Namespace, Name: r.Name}); len(result.Parents[id]) == 0 {
			a.warn("HTTPRoute %s: the files contain no Gateway of CacheNode %s that it names", id, name)
		}
	}
	return result, a.warnings
}

// Table returns the routes that the pods of a CacheNode would serve; see [Objects.Routes]. It writes a warning for each
// thing that is assumed, and for each problem of a Gateway or a route. A CacheNode without spec.gateways has no routes.
func (o Objects) Table(cacheNode *v1alpha1.CacheNode, clusterDomain string, warnings io.Writer) routes.Table {
	decided, assumed := o.Routes(cacheNode, clusterDomain)
	for _, warning := range assumed {
		output.Remark(warnings, "warning", warning)
	}
	for _, p := range decided.Problems() {
		output.Remark(warnings, "warning", fmt.Sprintf("%s %s: %s", p.Kind, p.Object, p.Text))
	}
	return decided.Table
}

// assumed adds to objects what the files do not contain.
type assumed struct {
	gateways.Objects
	warnings []string
}

func (a *assumed) warn(format string, args ...any) {
	a.warnings = append(a.warnings, fmt.Sprintf(format, args...))
}

// classes adds the classes of Gateways. They refer to the CacheNode.
func (a *assumed) classes(cacheNode types.NamespacedName) {
	a.Classes = slices.Clone(a.Classes)
	for i := range a.Gateways {
		name := string(a.Gateways[i].Spec.GatewayClassName)
		if slices.ContainsFunc(a.Classes, func(c gw.GatewayClass) bool { return c.Name == name }) {
			continue
		}
		class := gw.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.ControllerName = gateways.Controller
		class.Spec.ParametersRef = &gw.ParametersReference{
			Group: gw.Group(v1alpha1.GroupVersion.Group), Kind: "CacheNode", Name: cacheNode.Name,
			Namespace: new(gw.Namespace(cacheNode.Namespace)),
		}
		a.Classes = append(a.Classes, class)
		a.warn("GatewayClass %s is not in the files: it is assumed to refer to CacheNode %s", name, cacheNode)
	}
}

// namespaces adds the namespaces of Gateways and routes. If a selector of namespaces would have to know their labels,
// it selects all namespaces.
func (a *assumed) namespaces(fleet *gateways.Fleet) {
	a.Namespaces = slices.Clone(a.Namespaces)
	var missing []string
	add := func(name string) {
		if !slices.ContainsFunc(a.Namespaces, func(n corev1.Namespace) bool { return n.Name == name }) {
			a.Namespaces = append(a.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			missing = append(missing, name)
		}
	}
	for i := range a.Gateways {
		add(a.Gateways[i].Namespace)
	}
	for i := range a.HTTPRoutes {
		add(a.HTTPRoutes[i].Namespace)
	}
	for i := range a.Policies {
		add(a.Policies[i].Namespace)
	}
	if len(missing) == 0 {
		return
	}
	replaced := false
	all := func(of *gw.RouteNamespaces) {
		if ptr.Deref(of.From, gw.NamespacesFromSame) == gw.NamespacesFromSelector {
			of.From, replaced = new(gw.NamespacesFromAll), true
		}
	}
	all(&fleet.Allowed)
	a.Gateways = slices.Clone(a.Gateways)
	for i := range a.Gateways {
		a.Gateways[i] = *a.Gateways[i].DeepCopy()
		for j := range a.Gateways[i].Spec.Listeners {
			if of := a.Gateways[i].Spec.Listeners[j].AllowedRoutes; of != nil && of.Namespaces != nil {
				all(of.Namespaces)
			}
		}
	}
	if replaced {
		a.warn("the labels of the namespaces %s are not in the files: every selector of namespaces is assumed to select "+
			"every namespace", strings.Join(missing, ", "))
	}
}

// uids adds the UIDs of namespaces and routes, and the rule that the API server gives to a route without rules.
func (a *assumed) uids() {
	uid := func(name string) types.UID {
		sum := sha256.Sum256([]byte(name))
		return types.UID(hex.EncodeToString(sum[:16]))
	}
	for i := range a.Namespaces {
		if n := &a.Namespaces[i]; n.UID == "" {
			n.UID = uid(n.Name)
		}
	}
	a.HTTPRoutes = slices.Clone(a.HTTPRoutes)
	for i := range a.HTTPRoutes {
		r := &a.HTTPRoutes[i]
		if r.UID == "" {
			r.UID = uid(r.Namespace + "/" + r.Name)
		}
		if len(r.Spec.Rules) == 0 {
			r.Spec.Rules = []gw.HTTPRouteRule{{}}
		}
	}
}

// service returns a Service from the files. If the files do not contain it, the Service has the ports to which routes
// refer.
func (a *assumed) service(o Objects, name types.NamespacedName) gateways.Service {
	for i := range o.Services {
		if s := &o.Services[i]; s.Namespace == name.Namespace && s.Name == name.Name {
			endpoints := slices.DeleteFunc(slices.Clone(o.Endpoints), func(e discoveryv1.EndpointSlice) bool {
				return e.Namespace != name.Namespace || e.Labels[discoveryv1.LabelServiceName] != name.Name
			})
			return gateways.ServiceOf(s, endpoints)
		}
	}
	a.warn("Service %s is not in the files: it is assumed to have the ports to which routes refer", name)
	s := gateways.Service{Ports: map[int32]int32{}}
	for i := range a.HTTPRoutes {
		r := &a.HTTPRoutes[i]
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				if string(b.Name) == name.Name &&
					string(ptr.Deref(b.Namespace, gw.Namespace(r.Namespace))) == name.Namespace && b.Port != nil {
					s.Ports[*b.Port] = *b.Port
				}
			}
		}
	}
	return s
}

// certificate returns the certificate in a Secret from the files. If the files do not contain the Secret, a certificate
// is assumed. ok is false for a Secret of another type.
func (a *assumed) certificate(o Objects, name types.NamespacedName) (c gateways.Certificate, ok bool) {
	for i := range o.Secrets {
		if s := &o.Secrets[i]; s.Namespace == name.Namespace && s.Name == name.Name {
			return gateways.NewCertificate(withData(s)), s.Type == corev1.SecretTypeTLS
		}
	}
	a.warn("Secret %s is not in the files: it is assumed to contain a certificate", name)
	return gateways.Certificate{PEM: []byte{}}, true
}

// withData returns a Secret whose data contain its stringData, as the API server stores them.
func withData(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	return s
}
