// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

const (
	// maxKeyFile bounds a file of authorized keys.
	maxKeyFile = 1 << 20
	// maxFormerKeys bounds a request.
	maxFormerKeys = 64
)

func authorizeCommand(host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.AuthorizeRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	var answer api.AuthorizeAnswer
	if err := authorize(host, request, &answer); err != nil {
		answer.Refused = err.Error()
	}
	return writeJSON(stdout, answer)
}

// authorization is a request that was read.
type authorization struct {
	key    publicKey
	former []publicKey
	// password and certified are what the user has logged in with, where that was no key.
	password, certified bool
	remove              bool
}

func readAuthorization(request api.AuthorizeRequest) (a authorization, err error) {
	if a.key, err = parsePublicKey(request.Key); err != nil {
		return a, err
	}
	if len(request.Former) > maxFormerKeys {
		return a, fmt.Errorf("%d former keys are more than the %d of one request", len(request.Former), maxFormerKeys)
	}
	for _, text := range request.Former {
		former, err := parsePublicKey(text)
		if err != nil {
			return a, err
		}
		if former == a.key {
			return a, errors.New("the key is one of those that it takes the place of")
		}
		a.former = append(a.former, former)
	}
	a.password, a.certified, a.remove = request.Password, request.Certified, request.Remove
	return a, nil
}

// authorize changes the files of authorized keys, one after the other. No file loses a former key before it has
// the key.
func authorize(host Host, request api.AuthorizeRequest, answer *api.AuthorizeAnswer) error {
	a, err := readAuthorization(request)
	if err != nil {
		return err
	}
	paths, err := host.KeyFiles()
	if err != nil {
		return fmt.Errorf("finding the files of authorized keys: %w", err)
	}
	system := host.System()
	files := make([]keyFile, len(paths))
	for i, path := range paths {
		if files[i], err = readKeyFile(system, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	changes, found, err := a.changes(paths, files)
	answer.Elsewhere = !found && !a.password
	if err != nil {
		return err
	}
	if found || a.password {
		if err := recordReplacedKeys(host, a, paths); err != nil {
			return err
		}
	}
	for i, changed := range changes {
		if changed == nil {
			continue
		}
		if err := system.ReplaceKeeping(paths[i], changed); err != nil {
			return fmt.Errorf("writing %s: %w", paths[i], err)
		}
		answer.Changed = append(answer.Changed, paths[i])
	}
	return nil
}

// changes returns the new contents of the files, and whether one has the key or a former one. Nil: the file stays as it is.
func (a authorization) changes(paths []string, files []keyFile) (changes []keyFile, found bool, err error) {
	changes = make([]keyFile, len(files))
	for i, f := range files {
		there, former := f.keys(a.key), f.keys(a.former...)
		found = found || len(there) > 0 || len(former) > 0
		switch {
		case a.remove && len(former) > 0 && len(there) == 0:
			return nil, true, fmt.Errorf("%s has a former key and not the one that takes its place: nothing was removed", paths[i])
		case a.remove && len(former) > 0:
			changes[i] = f.without(a.former)
		case !a.remove && len(former) > 0 && len(there) == 0:
			changes[i] = f.with(a.key, optionsOf(former))
		}
	}
	switch {
	case found || a.remove || a.certified:
	case a.password:
		changes[0] = files[0].with(a.key, []string{""})
	default:
		return nil, false, fmt.Errorf("the key that logs in is not in %s: sshd takes it from elsewhere, see AuthorizedKeysFile and AuthorizedKeysCommand in its sshd_config", strings.Join(paths, ", nor in "))
	}
	return changes, found, nil
}

// optionsOf are the different options of lines.
func optionsOf(lines []keyLine) []string {
	var out []string
	for _, l := range lines {
		if !slices.Contains(out, l.options) {
			out = append(out, l.options)
		}
	}
	return out
}

// readKeyFile reads a file of authorized keys. One that does not exist is empty.
func readKeyFile(system System, path string) (keyFile, error) {
	info, err := system.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Kind == engine.FileMissing:
		return nil, nil
	case info.Kind != engine.FileRegular:
		return nil, errors.New("it is no regular file")
	}
	f, err := system.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(content) > maxKeyFile {
		err = fmt.Errorf("it has more than %d bytes", maxKeyFile)
	}
	return content, err
}
