// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	// maxHeader bounds the header line; real ones have a few hundred bytes.
	maxHeader = 64 << 10
	// streamBuffer holds the header. What follows is passed on without it, see WriteTo;
	// thousands of followers are open at one time, and each has one.
	streamBuffer = 1 << 10
)

// LogStream is a log on its way from a host.
type LogStream struct {
	process  *ssh.Process
	reader   *bufio.Reader
	patience patience
	stop     sync.Once
	wait     sync.WaitGroup
}

// Logs opens a log on the host of the instance. It returns once the host has found
// the log. Where the agent cannot be put on the host, an older one reads it. The stream ends with ctx. Errors are those of [Hosts],
// [ssh.Error]s, [Error]s and [LogRefusedError]s.
func (a *Client) Logs(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (*LogStream, error) {
	to, err := a.login(ctx, instance)
	if err != nil {
		return nil, err
	}
	var stream *LogStream
	err = a.withReader(ctx, to, func(program string) error {
		stream, err = a.openLog(ctx, to.Target, program, request)
		return err
	})
	return stream, err
}

func (a *Client) openLog(ctx context.Context, target ssh.Target, program string, request api.LogRequest) (_ *LogStream, err error) {
	// Standard input stays open until the log does not: the host learns by it that its reader has left.
	request.Attended = !request.Follow
	line, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the log request: %w", err)
	}
	process, err := a.options.Pool.Start(ctx, target, program+" "+api.CommandLogs)
	if err != nil {
		return nil, err
	}
	s := &LogStream{process: process, reader: bufio.NewReaderSize(process.Stdout(), streamBuffer), patience: a.patience}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if _, err := process.Stdin().Write(append(line, '\n')); err != nil {
		return nil, s.failure(fmt.Errorf("sending the log request: %w", err))
	}
	if err := s.readHeader(); err != nil {
		return nil, err
	}
	return s, nil
}

// readHeader waits for the first line of the answer.
func (s *LogStream) readHeader() error {
	timer := time.AfterFunc(s.patience.header, func() { _ = s.process.Close() })
	line, err := readLine(s.reader, maxHeader)
	if timedOut := !timer.Stop(); timedOut {
		return &Error{Step: StepRun, Err: fmt.Errorf("it did not answer within %s: %w", s.patience.header, context.DeadlineExceeded)}
	}
	if err != nil {
		return s.failure(fmt.Errorf("reading the answer: %w", err))
	}
	refusal, err := answer.LogHeader(line)
	switch {
	case err != nil:
		return s.failure(err)
	case refusal != nil:
		return &LogRefusedError{Refusal: *refusal}
	}
	return nil
}

// failure prefers what the program or the connection said to what we noticed of it. What
// answers nonsense may never end by itself.
func (s *LogStream) failure(noticed error) error {
	_ = s.process.Stdin().Close()
	timer := time.AfterFunc(s.patience.failure, func() { _ = s.process.Close() })
	waited := s.process.Wait()
	if timedOut := !timer.Stop(); timedOut || waited == nil {
		return &Error{Step: StepRun, Err: noticed}
	}
	return agentFailure(waited)
}

// Read implements [io.Reader]. At the end it is io.EOF only if the host said that
// the log is complete.
func (s *LogStream) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if errors.Is(err, io.EOF) {
		if failed := agentFailure(s.process.Wait()); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// WriteTo implements [io.WriterTo], which saves a large log a copy. It ends as Read does.
func (s *LogStream) WriteTo(w io.Writer) (int64, error) {
	n, err := s.reader.WriteTo(w)
	if err == nil {
		err = agentFailure(s.process.Wait())
	}
	return n, err
}

// Stop has the host end a follow in good order: what is readable is still sent,
// then the line with the cursor. It does not wait for it.
func (s *LogStream) Stop() {
	s.stop.Do(func() {
		s.wait.Go(func() {
			// A connection that is gone ends the stream by itself.
			_, _ = io.WriteString(s.process.Stdin(), api.StopLine+"\n")
			_ = s.process.Stdin().Close()
		})
	})
}

// Close ends the stream at once.
func (s *LogStream) Close() error {
	err := s.process.Close()
	s.wait.Wait()
	return err
}

// readLine reads a line without its end, of at most limit bytes.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > limit {
			return nil, &answer.TooLargeError{What: "a line", Limit: limit}
		}
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
