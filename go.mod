module github.com/cachenode/cachenode-operator

go 1.26.0
