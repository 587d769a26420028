// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package keys keeps the keys that hosts accept while their Secrets get others, and says how far the hosts of a
// Secret have come to its new key.
//
// Whoever replaces the key of a Secret overwrites the only copy of the one that hosts accept. So the controller keeps
// each key that it has logged in with, in the Secret [host.KeptSecret] beside the one that has the key: nobody can read it
// there who could not read the key itself. The copy of a former key goes when the last host has the new one, or
// when the key is said to be compromised, by an annotation of its Secret or of the kept one. What is decided is decided by the pure functions of keep.go and pace.go.
//
// Hosts get their key by package instance, which asks [Pacer] when. The package contacts no host.
package keys
