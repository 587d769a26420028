// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import "fmt"

// Session is a session of a person, at the console or over Remote Desktop. SSH makes none.
type Session struct {
	ID int `json:"id"`
	// User is the account, with its domain or computer.
	User string `json:"user"`
	// Disconnected means that the person has left without logging off; their programs run on.
	Disconnected bool `json:"disconnected,omitempty"`
}

// AtWork names the sessions in which somebody is connected, for people. Windows refuses a restart
// that is not forced while there is any session. These have it refused by us, too; a restart ends
// those that are only disconnected: people forget to log off, and no update waits for them.
func AtWork(list []Session) []string {
	var names []string
	for _, s := range list {
		if !s.Disconnected {
			names = append(names, fmt.Sprintf("%s (session %d)", s.User, s.ID))
		}
	}
	return names
}
