// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	// removeTimeout bounds removing the agent from a host, besides waiting for what is in use.
	removeTimeout = time.Minute
	// removePause is the time between two tries.
	removePause = 250 * time.Millisecond
	// maxLeft is how many of the files that stay are named.
	maxLeft = 5
)

var (
	// agentFile matches the names of the agent, of any release, and those that it has while it is sent.
	// owner.json is left by one that was terminated while it changed the host.
	agentFile = regexp.MustCompile(`^((upload-[0-9a-f]{8}-)?windows-node-agent-[0-9a-f]{16}(\.exe)?|owner\.json)$`)
	// stateFile matches what the agent leaves of its state: the directory of files in use.
	stateFile = regexp.MustCompile(`^trash$`)
	// payloadFile matches the names of files of the payload, and those that they have while
	// they are sent or unpacked.
	payloadFile = regexp.MustCompile(`^[0-9a-f]{64}(\.[0-9A-Za-z.-]+)?$`)
)

// stateDir is the directory of the agent's state. The agent removes it, but for files in use, which
// Windows removes with it at the next restart.
const stateDir = agentDir + `\state`

// removeAgent removes the agent from the host, with what is left of sending files, and its
// directory, unless that goes at the next restart. What is not ours stays, and is an error: an
// administrator has to decide.
func (a *Client) removeAgent(ctx context.Context, target ssh.Target) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout+a.patience.removal)
	defer cancel()
	client, err := openSFTP(ctx, a.options.Pool, target)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	r := &remover{ctx: ctx, client: client, until: time.Now().Add(a.patience.removal)}
	r.directory(api.PayloadDirectory, payloadFile)
	r.inUse(stateDir)
	r.directory(agentDir, agentFile)
	if r.err != nil {
		return &Error{Step: StepRemove, Err: r.err}
	}
	return nil
}

// remover removes files until something cannot be removed.
type remover struct {
	ctx    context.Context
	client *ssh.SFTP
	// until is how long what is in use is tried again.
	until time.Time
	// stays is a directory that goes at the next restart, with the one above it.
	stays string
	err   error
}

// inUse finds out whether a directory has files in use and nothing else.
func (r *remover) inUse(hostPath string) {
	if r.err != nil {
		return
	}
	entries, err := r.client.ReadDir(overSFTP(hostPath))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		r.err = fmt.Errorf("reading the directory %s: %w", hostPath, err)
	case !slices.ContainsFunc(entries, func(e os.FileInfo) bool { return !stateFile.MatchString(e.Name()) }):
		r.stays = hostPath
	}
}

// directory removes the files of a directory whose names match, and the directory as well.
func (r *remover) directory(hostPath string, ours *regexp.Regexp) {
	if r.err != nil {
		return
	}
	remote := overSFTP(hostPath)
	entries, err := r.client.ReadDir(remote)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.err = fmt.Errorf("reading the directory %s: %w", hostPath, err)
		return
	}
	var left []string
	for _, e := range entries {
		if hostPath+`\`+e.Name() == r.stays {
			continue
		}
		if e.IsDir() || !ours.MatchString(e.Name()) {
			left = append(left, answer.Line(e.Name(), answer.MaxName))
			continue
		}
		name := path.Join(remote, e.Name())
		if err := r.try(func() error { return r.client.Remove(name) }); err != nil {
			r.err = fmt.Errorf("%s in %s cannot be removed, perhaps because it runs or is open: %w", e.Name(), hostPath, err)
			return
		}
	}
	switch {
	case len(left) > maxLeft:
		r.err = fmt.Errorf("%s is kept because it contains %d other files or directories, among them %s", hostPath, len(left), strings.Join(left[:maxLeft], ", "))
	case len(left) > 0:
		r.err = fmt.Errorf("%s is kept because it contains other files: %s", hostPath, strings.Join(left, ", "))
	case r.stays != "":
	default:
		if err := r.try(func() error { return r.client.RemoveDirectory(remote) }); err != nil {
			r.err = fmt.Errorf("%s cannot be removed: %w", hostPath, err)
		}
	}
}

// try repeats what fails, as a program that has just ended, or a scanner, may hold a file for a moment.
func (r *remover) try(remove func() error) error {
	for {
		err := remove()
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !time.Now().Before(r.until) {
			return err
		}
		select {
		case <-r.ctx.Done():
			return err
		case <-time.After(removePause):
		}
	}
}
