// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

// ReplacedKeysPath is the file in which the agent keeps which key took the place of which former ones. It has public keys
// only, and only administrators can write it.
const ReplacedKeysPath = Root + `\replaced-keys.json`

// AuthorizeRequest changes which public keys may log in as the user who sends it. Keys have the form of a
// line of sshd's AuthorizedKeysFile without options and comment: type and base64; see sshd(8). It can be repeated.
type AuthorizeRequest struct {
	// Key is the key that may log in. It is added where one of the former keys is, with the options of its
	// line.
	Key string `json:"key"`
	// Former are the keys that Key takes the place of.
	Former []string `json:"former,omitempty"`
	// Password: the user has logged in with a password. Where there is no former key, Key is added where the keys
	// of the user belong.
	Password bool `json:"password,omitempty"`
	// Certified: the user has logged in with a certificate of Key, which needs no line: where there is neither Key nor a former
	// key, nothing is to be done.
	Certified bool `json:"certified,omitempty"`
	// Remove takes the lines of the former keys away, of files that have Key, in place of adding it. From then on the service
	// of the agent does the same with each former key that is in a file again.
	Remove bool `json:"remove,omitempty"`
}

// AuthorizeAnswer is the answer to an [AuthorizeRequest].
type AuthorizeAnswer struct {
	// Changed are the paths of the files that were changed.
	Changed []string `json:"changed,omitempty"`
	// Elsewhere: none of the files has the key or a former one, so sshd takes the key that logs in from elsewhere, or accepts a
	// certificate.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Refused says why the request cannot be met. Files that had been changed before are in Changed. Empty: it
	// is met.
	Refused string `json:"refused,omitempty"`
}
