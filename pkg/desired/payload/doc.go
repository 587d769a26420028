// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package payload is what is shipped to a Windows host: the programs that make it a
// node, each with its place on the host and its digest.
//
// A payload is a directory with a manifest, or an OCI image that holds such a directory:
//
//	manifest.json         what there is: see [Manifest]
//	files/kubelet.exe     the content of a file
//	files/kubelet.exe.gz  the same, compressed, where that makes it smaller
//	licenses/             the license texts that go with the files, by module; not sent to hosts
//
// [Open] reads either. What it hands out is verified while it is read: a reader returns
// a [DigestError] in place of the last bytes of a content that is not what the manifest
// says. So the content is never complete when it is wrong, but its beginning may have
// been passed on by then: a writer gives it its final name only after
// io.EOF.
//
// [Build] and [Payload.WriteImage] write payloads: the same input gives the same bytes.
//
// The package knows nothing of Kubernetes, of hosts or of how files get there, and must
// not import any of our packages.
package payload
