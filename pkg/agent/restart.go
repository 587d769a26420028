// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// RestartNotice is the time from the agent's answer to the moment when the host goes
// down, about: it lets the answer out.
const RestartNotice = 2 * time.Second

// maxRequest bounds what is read from standard input; real requests have some hundred bytes.
const maxRequest = 64 << 10

// RestartRequest asks for the host to be restarted once. As it names the boot that
// shall end, it can be repeated without a second restart, for example when the answer
// was lost together with the connection.
type RestartRequest struct {
	// BootID is the boot that shall end, as [BootFacts.ID] has it. It must not be empty.
	BootID string `json:"bootID"`
	// Reason is kept in the log of the system, for people.
	Reason string `json:"reason,omitempty"`
	// Force ends programs that do not end by themselves, with what they have not saved.
	Force bool `json:"force,omitempty"`
}

// RestartAnswer is the answer to a [RestartRequest].
type RestartAnswer struct {
	// BootID is the boot that the host is in.
	BootID string `json:"bootID"`
	// Restarted means that the boot of the request is over, and that nothing was done.
	// While it is false the host is about to go down.
	Restarted bool `json:"restarted"`
}

// RestartOptions say how a [Host] restarts.
type RestartOptions struct {
	// Reason is kept in the log of the system, for people.
	Reason string
	// Force ends programs that do not end by themselves.
	Force bool
}

func bootCommand(ctx context.Context, host Host, stdout io.Writer) error {
	boot, err := identifiedBoot(ctx, host)
	if err != nil {
		return err
	}
	return writeJSON(stdout, boot)
}

func restartCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request RestartRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	if request.BootID == "" {
		return errors.New("the request does not say which boot shall end")
	}
	boot, err := identifiedBoot(ctx, host)
	if err != nil {
		return err
	}
	if boot.ID != request.BootID {
		return writeJSON(stdout, RestartAnswer{BootID: boot.ID, Restarted: true})
	}
	if err := host.Restart(ctx, RestartOptions{Reason: request.Reason, Force: request.Force}); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	return writeJSON(stdout, RestartAnswer{BootID: boot.ID})
}

// identifiedBoot fails for a host that cannot tell its boots apart: whoever restarts it
// could never know that it did.
func identifiedBoot(ctx context.Context, host Host) (BootFacts, error) {
	boot, err := host.Boot(ctx)
	if err != nil {
		return BootFacts{}, fmt.Errorf("finding out which boot this is: %w", err)
	}
	if boot.ID == "" {
		return BootFacts{}, errors.New("the system does not say which boot this is")
	}
	return boot, nil
}

func readJSON(r io.Reader, v any) error {
	if err := json.NewDecoder(io.LimitReader(r, maxRequest)).Decode(v); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}
