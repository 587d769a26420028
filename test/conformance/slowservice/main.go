// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command slowservice is a Windows service that is starting for as long as the file exists
// that is its argument, so that something can happen meanwhile.
package main

import (
	"os"
	"time"

	"golang.org/x/sys/windows/svc"
)

// patience is how long the service control manager must wait for the next sign of life.
const patience = 30 * time.Second

type service struct{}

// Execute implements [svc.Handler].
func (service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for checkPoint := uint32(1); ; checkPoint++ {
		if _, err := os.Stat(os.Args[1]); err != nil {
			break
		}
		status <- svc.Status{State: svc.StartPending, CheckPoint: checkPoint, WaitHint: uint32(patience.Milliseconds())}
		<-ticker.C
	}
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for r := range requests {
		if r.Cmd == svc.Stop {
			break
		}
	}
	return false, 0
}

func main() {
	if err := svc.Run("slowservice", service{}); err != nil {
		panic(err)
	}
}
