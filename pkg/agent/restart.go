// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// maxRequest bounds what is read from standard input; real requests have some hundred bytes.
const maxRequest = 64 << 10

func bootCommand(ctx context.Context, host Host, stdout io.Writer) error {
	boot, err := identifiedBoot(ctx, host)
	if err != nil {
		return err
	}
	return writeJSON(stdout, boot)
}

func restartCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	answer, err := restart(ctx, host, stdin)
	if err != nil {
		answer.Refused = err.Error()
	}
	return writeJSON(stdout, answer)
}

// restart fails before the host has agreed to restart, and not after it.
func restart(ctx context.Context, host Host, stdin io.Reader) (answer api.RestartAnswer, err error) {
	var request api.RestartRequest
	if err := readJSON(stdin, &request); err != nil {
		return answer, err
	}
	if request.BootID == "" {
		return answer, errors.New("the request does not say which boot is to end")
	}
	boot, err := identifiedBoot(ctx, host)
	if err != nil {
		return answer, err
	}
	answer.BootID = boot.ID
	if boot.ID != request.BootID {
		answer.Restarted = true
		return answer, nil
	}
	if err := host.Restart(ctx, request); err != nil {
		return answer, fmt.Errorf("restarting the host: %w", err)
	}
	return answer, nil
}

// identifiedBoot fails for a host without an identity of its boots: a restart of it could
// not be confirmed.
func identifiedBoot(ctx context.Context, host Host) (api.BootFacts, error) {
	boot, err := host.Boot(ctx)
	if err != nil {
		return api.BootFacts{}, fmt.Errorf("reading the identity of the boot: %w", err)
	}
	if boot.ID == "" {
		return api.BootFacts{}, errors.New("the system does not say which boot this is")
	}
	return boot, nil
}

func readJSON(r io.Reader, v any) error {
	if err := json.NewDecoder(io.LimitReader(r, maxRequest)).Decode(v); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}
