// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command winservice is a Windows service that does nothing but say how it was started: it
// writes its arguments and the variable WINSERVICE of its environment to the file that is
// its first argument.
package main

import (
	"os"
	"strings"

	"golang.org/x/sys/windows/svc"
)

type service struct{}

// Execute implements [svc.Handler].
func (service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	text := strings.Join(os.Args[2:], " ") + "\n" + os.Getenv("WINSERVICE") + "\n"
	if err := os.WriteFile(os.Args[1], []byte(text), 0o644); err != nil {
		return true, 1
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
	if err := svc.Run("winservice", service{}); err != nil {
		panic(err)
	}
}
