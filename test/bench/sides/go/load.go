package main

import (
	"syscall"
	"time"
)

// cpuTime is the time of all threads of this process on processors, the garbage collector's among them.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// load is time by the clock, and on processors.
type load struct {
	since time.Time
	cpu   time.Duration
}

func startLoad() load { return load{time.Now(), cpuTime()} }

func milliseconds(duration time.Duration) float64 { return duration.Seconds() * 1e3 }

// ms is milliseconds by the clock since the start.
func (l load) ms() float64 { return milliseconds(time.Since(l.since)) }

// cpuMs is milliseconds on processors since the start.
func (l load) cpuMs() float64 { return milliseconds(cpuTime() - l.cpu) }
