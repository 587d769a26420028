// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

// FilesRequest requests the state of files on the host.
type FilesRequest struct {
	Files []WantedFile `json:"files"`
}

// WantedFile is a file that is about to be sent.
type WantedFile struct {
	// Path is where it goes, below [Root].
	Path string `json:"path"`
	// Size is that of the content that is wanted, in bytes.
	Size int64 `json:"size"`
}

// FilesAnswer is the answer to a [FilesRequest].
type FilesAnswer struct {
	// Files has one element for each file of the request, in that order.
	Files []FileState `json:"files"`
}

// FileState is the state of a file on the host.
type FileState struct {
	Exists bool  `json:"exists"`
	Size   int64 `json:"size,omitempty"`
	// SHA256 is the digest of the content in lower-case hexadecimal; empty if the size is
	// not the wanted one.
	SHA256 string `json:"sha256,omitempty"`
	// Volume names the volume that the path is on, and FreeBytes is how much can be
	// written to it; negative if that is not known.
	Volume    string `json:"volume,omitempty"`
	FreeBytes int64  `json:"freeBytes"`
}

// CommitRequest requests that a file that was sent gets its name. It can be repeated.
type CommitRequest struct {
	// Temporary is where the file is, Path where it goes: both in one directory below
	// [Root].
	Temporary string `json:"temporary"`
	Path      string `json:"path"`
	// Size and SHA256 are those of the content, unpacked; the digest is in lower-case
	// hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Gzip says that the file at Temporary is compressed with gzip.
	Gzip bool `json:"gzip,omitempty"`
}

// CommitAnswer is the answer to a [CommitRequest].
type CommitAnswer struct {
	// Error says why the file does not have its name. Nil: it does.
	Error *CommitError `json:"error,omitempty"`
}

// CommitReason is why a file did not get its name.
type CommitReason string

// Reasons of a [CommitError].
const (
	// CommitDigestMismatch: size or digest are not those of the request.
	CommitDigestMismatch CommitReason = "DigestMismatch"
	// CommitDiskFull: there is no room to unpack the file. What was unpacked is removed.
	CommitDiskFull CommitReason = "DiskFull"
	// CommitInUse: what has the name cannot be replaced, because it is in use.
	CommitInUse CommitReason = "InUse"
	// CommitFailed: anything else.
	CommitFailed CommitReason = "Failed"
)

// CommitError says why a file did not get its name.
type CommitError struct {
	Reason  CommitReason `json:"reason"`
	Message string       `json:"message"`
}
