// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command winservice is a Windows service that does nothing but say how it was started: it
// writes its arguments and the variable WINSERVICE of its environment to the file that is
// its first argument. The file with .log behind that name is its log, which it keeps open and
// appends to, as containerd does.
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
	log, err := os.OpenFile(os.Args[1]+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return true, 2
	}
	defer log.Close()
	if _, err := log.WriteString("started with the arguments " + text); err != nil {
		return true, 3
	}
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for r := range requests {
		if r.Cmd == svc.Stop {
			break
		}
	}
	if _, err := log.WriteString("stopped\n"); err != nil {
		return true, 4
	}
	return false, 0
}

func main() {
	if err := svc.Run("winservice", service{}); err != nil {
		panic(err)
	}
}
