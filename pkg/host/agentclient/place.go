// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// agentDir is where the agent lives on a host. The path has no space, so that it can be
// run from cmd.exe and from PowerShell alike, as it is. Below C:\Windows only
// administrators can create anything: in C:\ProgramData or in the root of the drive
// any user could make the directory first and put a program of their own into it,
// which we would then run as administrator.
const agentDir = api.Root

const (
	// uploadTimeout bounds putting the agent, a few MiB, on a host.
	uploadTimeout = 3 * time.Minute
	// verifyTimeout bounds the agent's reading of its own file. A host on which programs
	// do not start must not hold up the next try for as long as an upload may take.
	verifyTimeout = 30 * time.Second
	// maxVersionAnswer bounds the answer to "version", which has some 200 bytes.
	maxVersionAnswer = 4 << 10
)

// drivePath matches how an SFTP server on Windows names its directories.
var drivePath = regexp.MustCompile(`^/?[A-Za-z]:`)

// placement is an agent that is on a host.
type placement struct {
	// command is its path in the form of the host's shell.
	command string
	// machine is the one that it runs on; see [api.Version].
	machine string
	// found is when it was asked for its digest under its name, which was the right one. Zero: it was put there since.
	found time.Time
}

// login is how to log in to the host of an instance, and which machine that is to be.
type login struct {
	ssh.Target

	// machine is empty when it is not known yet.
	machine string
}

// login returns how to log in to the host of an instance.
func (a *Client) login(ctx context.Context, instance *v1alpha1.WindowsInstance) (login, error) {
	target, err := a.options.Hosts.Target(ctx, instance)
	return login{target, instance.Machine()}, err
}

// ensureAgent makes sure that the agent is on the host, and the host the right machine. Callers for
// the same target share the work. Those for another target of the host do it once more, as two
// replicas do: each file has a name of its own until it is verified, see uploadAgent.
func (a *Client) ensureAgent(ctx context.Context, to login) (*placement, error) {
	placed, err := a.placed.Get(ctx, to.Owner, to.Identity(), func(ctx context.Context) (*placement, error) {
		ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
		defer cancel()
		return a.placeAgent(ctx, to.Target)
	})
	if err != nil {
		return nil, err
	}
	if !v1alpha1.SameMachine(to.machine, placed.machine) {
		a.misplaced(to.Target, placed) // the right one may answer the next time
		return nil, &AnotherHostError{Want: to.machine, Found: placed.machine}
	}
	return placed, nil
}

// placeAgent verifies the agent on the host, and uploads it when it is missing or another one.
func (a *Client) placeAgent(ctx context.Context, target ssh.Target) (*placement, error) {
	client, err := openSFTP(ctx, a.options.Pool, target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	build := a.options.Agents
	placed := &placement{command: build.command(), found: time.Now()}
	if placed.machine, err = findAgent(ctx, a.options.Pool, target, client, build); err == nil {
		return placed, nil
	}
	placed.found = time.Time{}
	placed.machine, err = a.uploadAgent(ctx, target, client, build)
	return placed, err
}

// openSFTP opens a session to read and write files. It fails on a host that does not run
// Windows, before anything is changed there.
func openSFTP(ctx context.Context, pool *ssh.Pool, target ssh.Target) (*ssh.SFTP, error) {
	client, err := pool.SFTP(ctx, target)
	if err != nil {
		return nil, err
	}
	home, err := client.RealPath(".")
	switch {
	case err != nil:
		err = fmt.Errorf("reading the working directory over SFTP: %w", err)
	case !drivePath.MatchString(home):
		err = errors.New("the host does not run Windows")
	default:
		return client, nil
	}
	_ = client.Close()
	return nil, &Error{Step: StepUpload, Err: err}
}

// findAgent verifies the agent on the host, and returns which machine that is. An agent that does
// not exist is an [fs.ErrNotExist].
func findAgent(ctx context.Context, pool *ssh.Pool, target ssh.Target, client *ssh.SFTP, build *Bundle) (machine string, err error) {
	command := build.command()
	info, err := client.Stat(overSFTP(command))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fs.ErrNotExist
	case err != nil:
		return "", &Error{Step: StepVerify, Err: fmt.Errorf("looking for %s: %w", command, err)}
	case info.Size() != build.size:
		return "", &Error{Step: StepVerify, Err: fmt.Errorf("%s has %d bytes on the host, and %d here", command, info.Size(), build.size)}
	}
	return verifyAgent(ctx, pool, target, command, build)
}

// withAgent calls do with the path of the agent on the host, after putting it there if need
// be. If do fails as it would without the agent, that is repeated once.
func (a *Client) withAgent(ctx context.Context, to login, do func(program string) error) error {
	for again := false; ; again = true {
		placed, err := a.ensureAgent(ctx, to)
		if err != nil {
			return err
		}
		if err = do(placed.command); again || !mayBeGone(err) {
			return err
		}
		a.misplaced(to.Target, placed)
	}
}

// verifyAgent has the agent at command compute the digest of its own file, over connections
// of the given pool, and returns which machine it runs on.
func verifyAgent(ctx context.Context, pool *ssh.Pool, target ssh.Target, command string, build *Bundle) (machine string, err error) {
	said, err := askVersion(ctx, pool, target, command)
	if err != nil {
		return "", &Error{Step: StepVerify, Err: err}
	}
	if said.SHA256 != build.sha256 {
		return "", &Error{Step: StepVerify, Err: fmt.Errorf("it has the digest %s on the host, and %s here", said.SHA256, build.sha256)}
	}
	return said.MachineID, nil
}

// AgentDigest has the agent on the host compute the digest of its own file, after putting it there if need be, and returns that: it is not
// what was found out before. An agent that is not the one that was put there, and answers, gives another digest than [Client.Agent].
// Errors are those of BootID.
func (a *Client) AgentDigest(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	began := time.Now()
	to, err := a.login(ctx, instance)
	if err != nil {
		return "", err
	}
	placed, err := a.ensureAgent(ctx, to)
	if err != nil {
		return "", err
	}
	if !placed.found.Before(began) {
		return a.options.Agents.sha256, nil
	}
	var said api.Version
	if _, err := a.queryTarget(ctx, to, query{command: api.CommandVersion}, &said); err != nil {
		return "", err
	}
	return said.SHA256, nil
}

// askVersion asks a program on the host which agent it is.
func askVersion(ctx context.Context, pool *ssh.Pool, target ssh.Target, command string) (said api.Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	out := answer.Buffer{What: fmt.Sprintf("its answer to %q", api.CommandVersion), Limit: maxVersionAnswer}
	if err := pool.Run(ctx, target, command+" "+api.CommandVersion, nil, &out); err != nil {
		return said, err
	}
	if err := answer.Decode(out.Bytes(), &said, answer.Usual); err != nil {
		return said, fmt.Errorf("it does not answer as the agent does: %w", err)
	}
	return said, nil
}

// mayBeGone says whether err could mean that the agent is no longer on the host,
// where it was once: then it is worth putting it there again. An agent that is
// silent, or does not stop sending, exists.
func mayBeGone(err error) bool {
	var failed *Error
	var tooLarge *answer.TooLargeError
	return errors.As(err, &failed) && failed.Step == StepRun && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &tooLarge)
}

// agentFailure makes an [Error] of an error that is not about the connection: the program failed.
func agentFailure(err error) error {
	if tooLarge, ok := errors.AsType[*answer.TooLargeError](err); ok {
		return &Error{Step: StepRun, Err: tooLarge}
	}
	if _, ok := errors.AsType[*ssh.ExitError](err); !ok {
		return err
	}
	return &Error{Step: StepRun, Err: err}
}

// commandPath is the path of a file of ours in the form of the shell of the host.
func commandPath(name string) string { return agentDir + `\` + name }

// overSFTP is a path of a host as SFTP has it.
func overSFTP(hostPath string) string { return "/" + strings.ReplaceAll(hostPath, `\`, "/") }
