// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"strings"
)

// Root is the directory of the agent.
const Root = `C:\Windows\windows-node-agent`

// PayloadDirectory is where the files of the payload are put for the engine, which
// moves them to where they belong; see [PayloadPath].
const PayloadDirectory = Root + `\payload`

// PayloadPath is where a file of the payload is put for the engine: digest is that of
// its content, as in [config.File]. It is moved from there, so that a host does not need the
// space twice; a content that belongs in several places is copied to all but the last.
func PayloadPath(digest string) string {
	_, hexadecimal, _ := strings.Cut(digest, ":")
	return PayloadDirectory + `\` + hexadecimal
}

// PayloadFile is a file of the payload that a host needs and does not have.
type PayloadFile struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size,omitempty"`
	URL    string `json:"url,omitempty"`
	// Path is where it is to be put, see [PayloadPath].
	Path string `json:"path"`
}
