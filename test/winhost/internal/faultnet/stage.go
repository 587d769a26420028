// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package faultnet

import (
	"bytes"
	"encoding/binary"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// stageEnd returns how many bytes of the server's half of an SSH connection belong to
// what comes before the fault at a stage. seen is what the server has sent so far; known
// is false as long as that is too little to tell.
//
// The layout is RFC 4253: an identification line ending in LF (section 4.2), then
// unencrypted packets with a four byte length (section 6) until keys are exchanged.
func stageEnd(stage fault.Stage, seen []byte) (n int, known bool) {
	line := bytes.IndexByte(seen, '\n') + 1
	if line == 0 {
		return 0, false
	}
	if stage == fault.StageBanner {
		return line, true
	}
	if len(seen) < line+4 {
		return 0, false
	}
	return line + 4 + int(binary.BigEndian.Uint32(seen[line:])), true
}
