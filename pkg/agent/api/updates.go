// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import "time"

// UpdatesPath is the file in which the service keeps [WindowsUpdates].
const UpdatesPath = Root + `\state\updates.json`

// MaxPendingUpdates is how many updates [WindowsUpdates] names.
const MaxPendingUpdates = 64

// WindowsUpdates is what the service of a host knows of the updates of Windows that wait to be
// installed. It searches for them every few hours, and after each boot.
type WindowsUpdates struct {
	// SearchedAt is when the last search that succeeded ended. Zero: none did.
	SearchedAt time.Time `json:"searchedAt,omitzero"`
	// BootID is the boot in which that was.
	BootID string `json:"bootID,omitempty"`
	// FailedAt is when a search failed after that, and Error why. Zero: none did.
	FailedAt time.Time `json:"failedAt,omitzero"`
	Error    string    `json:"error,omitempty"`
	// Total is how many updates wait, and Security how many of them fix weaknesses.
	Total    int `json:"total"`
	Security int `json:"security"`
	// Pending are the updates, those for security first, at most [MaxPendingUpdates] of them.
	Pending []Update `json:"pending,omitempty"`
}

// Update is an update of Windows that waits to be installed.
type Update struct {
	// ID and Revision identify it for the Windows Update Agent.
	ID       string `json:"id"`
	Revision int    `json:"revision"`
	// Title is its name, for people.
	Title string `json:"title"`
	// KBs are the articles about it, such as KB5044281.
	KBs []string `json:"kbs,omitempty"`
	// Security says whether it fixes weaknesses, and Severity how bad these are, as in "Critical". Empty: it is not rated.
	Security bool   `json:"security,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Downloaded says whether its files are on the host.
	Downloaded bool `json:"downloaded,omitempty"`
}
