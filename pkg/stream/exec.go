// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// terminalSize is what clients send when their terminal changes, as client-go does.
type terminalSize struct{ Width, Height uint16 }

// maxResizeSize is plenty for {"Width":65535,"Height":65535}.
const maxResizeSize = 1 << 10

// ServeExec upgrades the request, connects the client with the session until one of
// them ends, and sends the client how the command ended. It closes the session in
// any case, and returns when no goroutine of it is left. r.Context() ends it too.
func ServeExec(w http.ResponseWriter, r *http.Request, o ExecOptions, c Config, s Session) Result {
	c = c.withDefaults()
	o.Stderr = o.Stderr && !o.TTY
	if err := CheckExec(r); err != nil {
		// Nothing waits for the command: how it ends does not matter.
		_ = s.Close()
		return notUpgraded(w, err)
	}
	client, err := upgradeChannels(w, r, c, execProtocols)
	if err != nil {
		_ = s.Close()
		return Result{End: EndNotUpgraded, Err: err}
	}
	run := &execRun{client: client, session: s, options: o, sizes: newLatestSize(), ended: make(chan Result, maxEnds)}
	run.config, run.started = c, time.Now()
	return run.serve(r.Context())
}

// maxEnds is how many goroutines may send to execRun.ended.
const maxEnds = 4

// execRun is one session between a client and a command.
type execRun struct {
	client  *channels
	session Session
	options ExecOptions
	sizes   latestSize
	activity

	// ended takes what ends the session: the end of the command, and at most one failure
	// from each goroutine that copies output, and one from resizing, or from input without a terminal.
	ended chan Result

	recording sync.Mutex // guards calls of the recorder

	readOnce sync.Once
	readErr  error // the first error of reading output; valid when the copies are done
}

func (e *execRun) serve(ctx context.Context) Result {
	var copies, outputs sync.WaitGroup
	over := make(chan struct{})
	if e.options.Stdin {
		stdin := e.client.input(remotecommand.StreamStdIn)
		copies.Go(func() { e.copyStdin(stdin) })
	} else if !e.options.TTY {
		// An error says that the command has ended already; Wait reports that better.
		_ = e.session.Stdin().Close()
	}
	if e.options.TTY {
		e.client.other = e.takeSize
		copies.Go(func() { e.resize(over) })
	}
	e.client.start(e.config.KeepAlive)
	// An empty message on the first channel signals the client that it is connected.
	// Should it fail, the reader finds out.
	_, _ = e.client.write(e.firstChannel(), nil)
	outputs.Go(func() { e.copyOutput(e.session.Stdout(), e.output(e.options.Stdout, remotecommand.StreamStdOut)) })
	outputs.Go(func() { e.copyOutput(e.session.Stderr(), e.output(e.options.Stderr, remotecommand.StreamStdErr)) })
	copies.Go(func() {
		code, err := e.session.Wait()
		outputs.Wait()
		if err == nil {
			err = e.readErr
		}
		if err != nil {
			e.ended <- Result{End: EndFailed, Err: err}
			return
		}
		e.ended <- Result{End: EndExited, ExitCode: code}
	})

	result := e.wait(ctx, e.ended, e.client)
	close(over)
	if result.End == EndClientGone {
		e.client.abort()
	} else {
		e.client.hurry()
	}
	if err := e.session.Close(); err != nil && result.End == EndFailed {
		result.Err = errors.Join(result.Err, err)
	}
	outputs.Wait()
	if result.End != EndClientGone {
		status, err := json.Marshal(finalStatus(result, e.config.IdleTimeout))
		if err != nil {
			result.Err = errors.Join(result.Err, fmt.Errorf("encoding the final status: %w", err))
		}
		// An error says that the client is gone.
		_, _ = e.client.write(remotecommand.StreamErr, status)
		e.client.finish()
	}
	copies.Wait()
	result.Received, result.Sent = e.received.Load(), e.sent.Load()
	return result
}

func (e *execRun) firstChannel() byte {
	switch {
	case e.options.Stdout:
		return remotecommand.StreamStdOut
	case e.options.Stderr:
		return remotecommand.StreamStdErr
	default:
		return remotecommand.StreamErr
	}
}

// output sends on a channel; nil when it was not requested.
func (e *execRun) output(wanted bool, channel byte) io.Writer {
	if !wanted {
		return nil
	}
	return output{e.client, channel}
}

// takeSize takes the last size in a message. What is no size is ignored, as the other
// servers do.
func (e *execRun) takeSize(channel byte, message io.Reader) {
	if channel != remotecommand.StreamResize {
		return
	}
	decoder := json.NewDecoder(io.LimitReader(message, maxResizeSize))
	for {
		var size terminalSize
		if err := decoder.Decode(&size); err != nil {
			return
		}
		e.sizes.put(size)
	}
}

// copyStdin sends what the client sends to the command. A command that does not
// read its input is none of the client's business: the rest is thrown away, because
// behind it in the connection are resizes and the end of the client.
func (e *execRun) copyStdin(from io.Reader) {
	to := e.session.Stdin()
	var through buffer
	inputClosed := false
	for {
		data, err := through.read(from)
		if len(data) > 0 {
			e.touch()
			e.received.Add(int64(len(data)))
			if err := e.recordInput(data); err != nil {
				e.ended <- Result{End: EndRecordingFailed, Err: err}
				return
			}
			if !inputClosed {
				if _, err := to.Write(data); err != nil {
					inputClosed = true
				}
			}
		}
		if errors.Is(err, io.EOF) {
			// An error says that the command has ended; Wait reports that better.
			_ = to.Close()
			return
		}
		if err != nil {
			// The client is gone, which is noticed elsewhere. To the command this must
			// not look like the end of the input: it would take half of it for all.
			return
		}
	}
}

// copyOutput sends what the command writes to the client. to may be nil.
func (e *execRun) copyOutput(from io.Reader, to io.Writer) {
	var through buffer
	for {
		data, err := through.read(from)
		if len(data) > 0 {
			// Also what nobody asked for: to leave output out is no way around a recording.
			if err := e.record(data); err != nil {
				e.ended <- Result{End: EndRecordingFailed, Err: err}
				return
			}
		}
		if len(data) > 0 && to != nil {
			e.touch()
			if _, err := to.Write(data); err != nil {
				e.ended <- Result{End: EndClientGone}
				return
			}
			e.sent.Add(int64(len(data)))
			e.touch()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				e.readOnce.Do(func() { e.readErr = fmt.Errorf("reading the output: %w", err) })
			}
			return
		}
	}
}

func (e *execRun) record(p []byte) error {
	if e.config.Recorder == nil {
		return nil
	}
	e.recording.Lock()
	defer e.recording.Unlock()
	return e.config.Recorder.Output(p)
}

// recordInput records what a terminal does not show: without one nothing is echoed. What is typed into a
// terminal is shown there, but for passwords.
func (e *execRun) recordInput(p []byte) error {
	if e.config.Recorder == nil || e.options.TTY {
		return nil
	}
	e.recording.Lock()
	defer e.recording.Unlock()
	return e.config.Recorder.Input(p)
}

// resize passes the sizes of the terminal on until the session is over.
func (e *execRun) resize(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case size := <-e.sizes:
			e.touch()
			// A terminal of the wrong size is no reason to end a session.
			_ = e.session.Resize(size.Width, size.Height)
			if e.config.Recorder == nil {
				continue
			}
			e.recording.Lock()
			err := e.config.Recorder.Resize(size.Width, size.Height)
			e.recording.Unlock()
			if err != nil {
				e.ended <- Result{End: EndRecordingFailed, Err: err}
				return
			}
		}
	}
}

// latestSize holds the newest size of the terminal until it is received.
type latestSize chan terminalSize

func newLatestSize() latestSize { return make(latestSize, 1) }

// put replaces what is in the box. Only one goroutine may call it.
func (b latestSize) put(size terminalSize) {
	select {
	case <-b:
	default:
	}
	b <- size
}
