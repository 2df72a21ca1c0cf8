package cache

// AtMost is for the tests.
var AtMost = atMost
