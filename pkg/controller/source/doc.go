// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package source holds what the controllers that turn a source (a ConfigMap,
// Machines) into pools and instances have in common: which changes of an object
// concern them, and how problems are told to people without telling them twice. The
// other controllers use how texts are fitted into conditions and events, and how a
// change is mapped to instances.
// It imports nothing of this project but the API.
package source
