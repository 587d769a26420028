// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command idle stands in for the programs of a payload that a test does not look at. As a
// service it runs until it is stopped, with whatever arguments; otherwise it ends at once.
package main

import (
	"errors"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

type service struct{}

// Execute implements [svc.Handler].
func (service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		if r.Cmd == svc.Stop || r.Cmd == svc.Shutdown {
			break
		}
	}
	return false, 0
}

func main() {
	if err := svc.Run("", service{}); err != nil && !errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		panic(err)
	}
}
