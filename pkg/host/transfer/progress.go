// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

// Stage is how far the transfer of a file is.
type Stage int32

// The stages of a file, in their order.
const (
	// StageWaiting means that nothing was done for it yet.
	StageWaiting Stage = iota
	// StageSending means that it moves.
	StageSending
	// StageVerifying means that all of it is on the host, which unpacks it and computes its digest.
	StageVerifying
	// StageDone means that it has its final name.
	StageDone
	// StageSkipped means that it was on the host already.
	StageSkipped
)

var stageNames = map[Stage]string{
	StageWaiting: "Waiting", StageSending: "Sending", StageVerifying: "Verifying", StageDone: "Done", StageSkipped: "Skipped",
}

// String returns the name of the stage.
func (s Stage) String() string { return stageNames[s] }

// Progress is how far a transfer is.
type Progress struct {
	// Files are the items in their order.
	Files []FileProgress
	// Sent and Total are bytes that have been and have to be sent: compressed, if a file
	// moves compressed. What an earlier transfer had sent counts as sent; what was skipped in neither.
	Sent, Total int64
}

// FileProgress is how far one file is.
type FileProgress struct {
	// Name is that of the item.
	Name string
	// Stage is what is being done.
	Stage Stage
	// Sent and Total are as in Progress.
	Sent, Total int64
}

// snapshot is the state of all jobs now.
func snapshot(jobs []*job) Progress {
	p := Progress{Files: make([]FileProgress, len(jobs))}
	for i, j := range jobs {
		f := FileProgress{Name: j.item.Name, Stage: Stage(j.stage.Load())}
		if f.Stage != StageSkipped {
			f.Sent, f.Total = j.sent.Load(), j.wire.Size
		}
		p.Files[i] = f
		p.Sent += f.Sent
		p.Total += f.Total
	}
	return p
}
