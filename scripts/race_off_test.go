//go:build !race

package scripts_test

const raceDetector = false
