module github.com/holdfast-ha/holdfast/test/peers/pod

go 1.26.0
