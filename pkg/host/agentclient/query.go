// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// queryTimeout bounds queries of the agent. Most answers take milliseconds; to inspect a
// host with a slow disk takes some seconds.
const queryTimeout = 30 * time.Second

// query is a request to the agent for one answer.
type query struct {
	// command is the sub-command.
	command string
	// request is written to its standard input as JSON; nil is none.
	request any
	// encoded is written there as it is, in place of a request. Nil: see request.
	encoded []byte
	// bundle has the secrets that the request has. They are taken out of the answer.
	bundle *config.Bundle
	// bounds are those of the answer; zero is [answer.Usual].
	bounds answer.Bounds
	// timeout bounds waiting for the answer; 0 is queryTimeout.
	timeout time.Duration
}

// query sends a request to the agent, after putting it on the host if need be. The answer, one document of
// JSON, is bounded in size and in what it holds.
func (a *Client) query(ctx context.Context, instance *v1alpha1.WindowsInstance, q query, into any) (answer.Exchange, error) {
	to, err := a.login(ctx, instance)
	if err != nil {
		return answer.Exchange{}, err
	}
	return a.queryTarget(ctx, to, q, into)
}

// queryTarget is query for callers that know how to log in already.
func (a *Client) queryTarget(ctx context.Context, to login, q query, into any) (times answer.Exchange, err error) {
	err = a.withAgent(ctx, to, func(program string) error {
		times, err = queryProgram(ctx, a.options.Pool, to.Target, program, q, into)
		return err
	})
	return times, err
}

// queryProgram sends the request to the agent that is on the host as program, over connections of the given pool.
func queryProgram(ctx context.Context, pool *ssh.Pool, target ssh.Target, program string, q query, into any) (answer.Exchange, error) {
	in := bytes.NewBuffer(q.encoded)
	if q.request != nil {
		if err := json.NewEncoder(in).Encode(q.request); err != nil {
			return answer.Exchange{}, fmt.Errorf("encoding the request to the agent: %w", err)
		}
	}
	times := answer.Exchange{Asked: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(q.timeout, queryTimeout))
	defer cancel()
	limits := cmp.Or(q.bounds, answer.Usual)
	out := answer.Buffer{What: fmt.Sprintf("its answer to %q", q.command), Limit: limits.Bytes}
	ran := pool.Run(ctx, target, program+" "+q.command, in.Bytes(), &out)
	times.Answered = time.Now()
	hide := redactorOf(q.bundle)
	if failed, ok := errors.AsType[*Error](agentFailure(ran)); ok {
		return times, hide.failure(failed)
	}
	// Whoever restarts a host may lose the connection after the answer and before the exit
	// code. The answer counts if it is whole, which its last byte says.
	if ran != nil && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		return times, ran
	}
	if err := answer.Decode([]byte(hide.text(out.String())), into, limits); err != nil {
		return times, &Error{Step: StepRun, Err: fmt.Errorf("its answer to %q: %w", q.command, err)}
	}
	return times, nil
}
