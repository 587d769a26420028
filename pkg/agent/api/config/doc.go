// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package config is the desired configuration of a host as one document, complete
// enough that whoever applies it needs to know nothing else.
//
// A [Document] is made by pkg/desired/document and pushed to the agent inside a [Bundle],
// together with the contents that must not be seen. A document itself holds no
// secrets: it may be logged, shown and stored. [Document.Canonical] is its one
// encoding, and [Document.Revision], the hash of that, is its name.
//
// The package holds the types, what they mean (order of services, variables,
// paths), their validation and their encoding. It does nothing on a host. The agent
// reads it, so it imports the standard library only.
package config
