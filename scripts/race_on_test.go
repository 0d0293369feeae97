//go:build race

package scripts_test

// raceDetector takes memory and time of its own.
const raceDetector = true
