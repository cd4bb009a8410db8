//go:build race

package zonal

const raced = true
