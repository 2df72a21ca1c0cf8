package objects

import (
	"cmp"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Order is the order in which objects are listed.
type Order string

// The orders: by key, by size with the largest first, and by time of arrival with the oldest first.
const (
	ByKey  Order = "key"
	BySize Order = "size"
	ByAge  Order = "age"
)

// Orders contains all orders.
var Orders = []Order{ByKey, BySize, ByAge}

// Compare compares two objects. If two objects have the same size or the same time, their keys decide.
func (o Order) Compare(a, b Object) int {
	first := 0
	switch o {
	case BySize:
		first = cmp.Compare(b.Bytes, a.Bytes)
	case ByAge:
		first = a.Received.Compare(b.Received)
	case ByKey:
	}
	return cmp.Or(first, cmp.Compare(a.Key, b.Key))
}

// Listing collects the objects of a disk. It keeps at most as many objects as the query requests.
type Listing struct {
	query Query
	store Store
	// group is the group of the object that was added last. If objects are added in the order of their keys, all objects
	// of a group are added together.
	group Group
}

// NewListing returns an empty listing.
func NewListing(q Query, store string) *Listing {
	q.Most, q.Groups = min(max(q.Most, 0), MaxListed), min(max(q.Groups, 0), MaxListed)
	return &Listing{query: q, store: Store{Name: store}}
}

// Add adds an object.
func (l *Listing) Add(o Object) {
	one := Total{Objects: 1, Files: o.Files, Bytes: o.Bytes}
	l.store.Total.Add(one)
	insert(&l.store.Objects, o, l.query.Most, l.query.Sort.Compare)
	if l.query.Groups == 0 {
		return
	}
	if name := cachekey.Parse(o.Key).Group(l.query.Depth); name != l.group.Name {
		l.endGroup()
		l.group = Group{Name: name}
	}
	l.group.Add(one)
}

func (l *Listing) endGroup() {
	if l.group.Objects == 0 {
		return
	}
	i := slices.IndexFunc(l.store.Groups, func(g Group) bool { return g.Name == l.group.Name })
	if i >= 0 { // the group is already in the list
		l.group.Add(l.store.Groups[i].Total)
		l.store.Groups = slices.Delete(l.store.Groups, i, i+1)
	}
	insert(&l.store.Groups, l.group, l.query.Groups, CompareGroups)
	l.group = Group{}
}

// CompareGroups orders groups by size, the largest first.
func CompareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
}

// insert inserts an item into a sorted list whose maximum length is most.
func insert[T any](list *[]T, one T, most int, compare func(a, b T) int) {
	i, _ := slices.BinarySearchFunc(*list, one, compare)
	if i >= most {
		return
	}
	if len(*list) == most {
		*list = (*list)[:most-1]
	}
	*list = slices.Insert(*list, i, one)
}

// Store returns the collected objects and groups. problem says why objects may be missing.
func (l *Listing) Store(problem string) Store {
	l.endGroup()
	l.store.Problem = problem
	return l.store
}
