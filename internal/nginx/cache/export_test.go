package cache

// For the tests.
var (
	AtMost    = atMost
	Removable = removable
	Uncounted = uncounted
	Guards    = guards
)
