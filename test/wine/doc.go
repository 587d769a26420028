// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package wine tests that hosts become Nodes: the document of pkg/desired/document, applied as it
// is by the agent's Windows build on a Wine host, and the real kubelet.exe that it makes a
// service of, joining a real control plane. Nothing of ours runs in the cluster here: the test
// does with its own hands what the controller does, and so the document can have all that a
// cluster may have. What the controller makes of a host is for package e2e to show. Beside that, the
// real windows_exporter.exe reads what the document has for it.
package wine
