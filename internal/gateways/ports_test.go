package gateways_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
)

func TestAssignPorts(t *testing.T) {
	t.Parallel()
	gateway := func(of string, age int64, ports ...int32) gw.Gateway {
		g := gw.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: of, CreationTimestamp: metav1.Unix(age, 0)}}
		g.Spec.Listeners = []gw.Listener{{Port: 1, Protocol: gw.TCPProtocolType}} // not supported, so it gets no port
		for _, p := range ports {
			g.Spec.Listeners = append(g.Spec.Listeners, gw.Listener{Port: p, Protocol: gw.HTTPProtocolType})
		}
		return g
	}
	port := func(of string, number int32) gateways.Port {
		return gateways.Port{Gateway: name("edge", of), Number: number}
	}
	type ports = map[gateways.Port]int32
	for name, tt := range map[string]struct {
		gateways []gw.Gateway
		kept     ports
		held     gateways.Held
		want     ports
	}{
		"none": {nil, ports{port("gone", 80): 100}, nil, ports{}},
		"the oldest first": {
			[]gw.Gateway{gateway("b", 2, 80), gateway("c", 1, 443, 80, 80), gateway("a", 2, 80)},
			nil, nil,
			ports{port("c", 443): 100, port("c", 80): 101, port("a", 80): 102},
		},
		"kept": {
			[]gw.Gateway{gateway("new", 1, 80), gateway("old", 2, 80)},
			ports{port("old", 80): 100},
			nil,
			ports{port("old", 80): 100, port("new", 80): 101},
		},
		"a pod may still serve those of a Gateway that is gone": {
			[]gw.Gateway{gateway("new", 1, 80, 81)},
			ports{port("gone", 80): 100, port("new", 82): 102},
			nil,
			ports{port("new", 80): 101},
		},
		"another range": {
			[]gw.Gateway{gateway("a", 1, 80), gateway("b", 1, 80)},
			ports{port("a", 80): 99, port("b", 80): 103},
			nil,
			ports{port("a", 80): 100, port("b", 80): 101},
		},
		"a Service that was deleted": {
			[]gw.Gateway{gateway("new", 1, 80), gateway("old", 2, 80)},
			nil,
			gateways.Held{101: port("old", 80)},
			ports{port("new", 80): 100, port("old", 80): 101},
		},
		"two numbers of a Gateway, while the range changes and changes back": {
			[]gw.Gateway{gateway("first", 1, 80), gateway("second", 2, 80)},
			ports{port("first", 80): 130},
			gateways.Held{100: port("first", 80), 130: port("first", 80)},
			ports{port("first", 80): 100, port("second", 80): 101},
		},
		"a Service that leads to the port of another Gateway": {
			[]gw.Gateway{gateway("old", 1, 80), gateway("new", 2, 80)},
			ports{port("old", 80): 100, port("new", 80): 100},
			gateways.Held{100: port("new", 80)},
			ports{port("old", 80): 101, port("new", 80): 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := gateways.AssignPorts(tt.gateways, tt.kept, tt.held, gateways.Range{From: 100, To: 102}, 3)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPortsOfNamespaces checks that the Gateways of one namespace cannot use up the ports of all.
func TestPortsOfNamespaces(t *testing.T) {
	t.Parallel()
	var s gateways.State
	for i, namespace := range []string{"a", "a", "a", "b"} {
		g := gw.Gateway{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "edge", CreationTimestamp: metav1.Unix(int64(i), 0),
		}}
		g.Spec.Listeners = []gw.Listener{{Port: int32(80 + i), Protocol: gw.HTTPProtocolType}}
		s.Gateways = append(s.Gateways, g)
	}
	refused := *s.Gateways[0].DeepCopy()
	refused.Name, refused.CreationTimestamp = "refused", metav1.Time{}
	refused.Spec.Addresses = []gw.GatewaySpecAddress{{Value: "10.1.1.1"}}
	s.Gateways = append(s.Gateways, refused)
	for from, want := range map[gw.FromNamespaces]map[gateways.Port]int32{
		gw.NamespacesFromSame: {
			{Gateway: name("a", "edge"), Number: 80}: 100, {Gateway: name("a", "edge"), Number: 81}: 101,
			{Gateway: name("a", "edge"), Number: 82}: 102,
		},
		gw.NamespacesFromAll: {
			{Gateway: name("a", "edge"), Number: 80}: 100, {Gateway: name("a", "edge"), Number: 81}: 101,
			{Gateway: name("b", "edge"), Number: 83}: 102,
		},
	} {
		s.Fleet.Namespace, s.Fleet.Allowed.From = "a", &from
		got := s.AssignedPorts(nil, nil, gateways.Range{From: 100, To: 107})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: ports (-want +got):\n%s", from, diff)
		}
	}
}

// TestPortsOfGatewaysThatAreGone checks that the ports of a deleted Gateway still count toward the limit of its
// namespace while pods listen on them.
func TestPortsOfGatewaysThatAreGone(t *testing.T) {
	t.Parallel()
	var s gateways.State
	s.Fleet.Allowed.From = new(gw.NamespacesFromAll)
	for i, namespace := range []string{"a", "b"} {
		g := gw.Gateway{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "new", CreationTimestamp: metav1.Unix(int64(i), 0),
		}}
		g.Spec.Listeners = []gw.Listener{{Port: 80, Protocol: gw.HTTPProtocolType}}
		s.Gateways = append(s.Gateways, g)
	}
	kept := map[gateways.Port]int32{
		{Gateway: name("a", "gone"), Number: 80}: 100, {Gateway: name("a", "gone"), Number: 81}: 101,
		{Gateway: name("b", "gone"), Number: 80}: 99, // of another range
	}
	want := map[gateways.Port]int32{{Gateway: name("b", "new"), Number: 80}: 102}
	got := s.AssignedPorts(kept, nil, gateways.Range{From: 100, To: 107})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}
