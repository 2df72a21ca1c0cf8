package cache

// For the tests.
var (
	AtMost       = atMost
	Removable    = removable
	WithoutGroup = withoutGroup
)
