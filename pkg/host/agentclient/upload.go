// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	// abandoned is how old a file that is being sent is at least when nobody sends it any more.
	abandoned = uploadTimeout + time.Minute
	// uncertainBytes are those at the end of a file that broke off which may be missing: many requests are in flight, and a
	// later one may have been written before an earlier one. The library sends 64, of 32 KiB each.
	uncertainBytes = (64 + 1) * 32 << 10
)

// uploadFile matches the names that the agent, of any release, has while it is sent.
var uploadFile = regexp.MustCompile(`^upload-[0-9a-f]{8}-windows-node-agent-[0-9a-f]{16}\.exe$`)

// uploadAgent writes the build under a temporary name, has the host compute its digest, and only then gives it its name. It returns
// which machine the host is. What broke off is continued by a later call, and what nobody continues is removed, once it is so old that
// no other process sends it: each has a name of its own.
func (a *Client) uploadAgent(ctx context.Context, target ssh.Target, client *ssh.SFTP, build *Bundle) (machine string, err error) {
	fail := func(doing string, err error) (string, error) {
		return "", &Error{Step: StepUpload, Err: fmt.Errorf("%s: %w", doing, err)}
	}
	if err := client.MkdirAll(overSFTP(agentDir)); err != nil {
		return fail("creating "+agentDir, err)
	}
	suffix := make([]byte, 4)
	if _, err := rand.Read(suffix); err != nil {
		return fail("choosing a temporary name", err)
	}
	temporary := commandPath("upload-" + hex.EncodeToString(suffix) + "-" + build.name())
	remote := overSFTP(temporary)
	// It stays if the connection is lost, and is continued.
	defer func() { _ = client.Remove(remote) }()

	local, err := os.Open(build.path)
	if err != nil {
		return fail("opening the local copy", err)
	}
	defer local.Close()
	file, err := client.OpenFile(remote, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fail("creating a file in "+agentDir, err)
	}
	if err := send(client, local, remote, continueAbandoned(client, remote, build)); err != nil {
		return fail(fmt.Sprintf("writing %d bytes to %s", build.size, agentDir)+whyNotSent(err), err)
	}
	if machine, err = verifyAgent(ctx, a.options.Pool, target, temporary, build); err != nil {
		return "", err
	}
	final := overSFTP(build.command())
	if err := client.PosixRename(remote, final); err != nil {
		// Another replica was faster: a program that runs cannot be replaced on
		// Windows, and need not be, as its name is that of its content.
		if info, statErr := client.Stat(final); statErr == nil && info.Size() == build.size {
			return machine, nil
		}
		return fail("renaming it", err)
	}
	return machine, nil
}

// whyNotSent is what may be wrong when [send] fails, as the rest of a message.
func whyNotSent(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return ", another process on the host has removed the file meanwhile"
	}
	return ", is the disk full? (to free space, kubectl windows exec works without the agent)"
}

// send writes the local file to the host from offset on.
func send(client *ssh.SFTP, local *os.File, remote string, offset int64) error {
	if _, err := local.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	file, err := client.OpenFile(remote, os.O_WRONLY)
	if err != nil {
		return err
	}
	if _, err = file.Seek(offset, io.SeekStart); err == nil {
		_, err = file.ReadFrom(local)
	}
	return errors.Join(err, file.Close())
}

// continueAbandoned puts the largest part of the build that nobody sends any more in the place of the empty file at remote, and returns
// how much of it is certain. All others that nobody sends are removed. The empty file, which was just made, has the time of the host.
func continueAbandoned(client *ssh.SFTP, remote string, build *Bundle) int64 {
	now, err := client.Stat(remote)
	if err != nil {
		return 0
	}
	entries, err := client.ReadDir(overSFTP(agentDir))
	if err != nil {
		return 0
	}
	entries = slices.DeleteFunc(entries, func(e os.FileInfo) bool {
		return e.IsDir() || !uploadFile.MatchString(e.Name()) || now.ModTime().Sub(e.ModTime()) < abandoned
	})
	slices.SortFunc(entries, func(a, b os.FileInfo) int { return cmp.Compare(b.Size(), a.Size()) })
	certain := int64(0)
	for _, e := range entries {
		name := overSFTP(commandPath(e.Name()))
		ours := strings.HasSuffix(e.Name(), "-"+build.name()) && e.Size() <= build.size
		if part := e.Size() - uncertainBytes; ours && certain == 0 && part > 0 && claim(client, name, remote, now.ModTime()) {
			certain = part
			continue
		}
		_ = client.Remove(name) // who has it open keeps it until the next time
	}
	return certain
}

// claim gives a file another name and the time of now, so that nobody else continues or removes it. A file that is open on the host is
// not to be had.
func claim(client *ssh.SFTP, name, remote string, now time.Time) bool {
	file, err := client.OpenFile(name, os.O_WRONLY)
	if err != nil || file.Close() != nil {
		return false
	}
	// In this order: under its new name it must never look abandoned.
	return client.Chtimes(name, now, now) == nil && client.PosixRename(name, remote) == nil
}
