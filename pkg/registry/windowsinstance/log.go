// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/recheck"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// LogOpener opens logs on hosts.
type LogOpener interface {
	// OpenLog returns once the host has found the requested logs and is about to
	// send them, so that every refusal is still an HTTP error; errors are
	// [apierrors.StatusError]s. The stream ends when ctx does.
	OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (LogStream, error)
}

// LogStream is a log on its way from a host.
type LogStream interface {
	io.ReadCloser
	// Stop asks the host to end a follow in good order: what is readable is still
	// sent, then the line with the cursor, then comes io.EOF. It does not wait.
	Stop()
}

// How long a follow may last.
const (
	// endless is for the name log, which kube-apiserver never cuts.
	endless time.Duration = 0
	// beforeFrontProxyTimeout is for the name logs: kube-apiserver aborts such a
	// request after 60 s, its default --request-timeout, in the middle of a line if
	// it must. Ending it a little earlier makes a clean end of it.
	beforeFrontProxyTimeout = 50 * time.Second
)

// LogREST serves the subresources log and logs: the logs of a host, live over SSH.
type LogREST struct {
	instances rest.Getter
	logs      LogOpener
	streams   *limits.Streams
	track     tracker
	rechecks  *rechecks
	maxFollow time.Duration
	now       func() time.Time
}

var (
	_ rest.GetterWithOptions = &LogREST{}
	_ rest.StorageMetadata   = &LogREST{}
)

var _ io.WriterTo = &logReader{}

func newLogREST(instances rest.Getter, logs LogOpener, streams *limits.Streams, track tracker, again *rechecks, maxFollow time.Duration) *LogREST {
	return &LogREST{instances: instances, logs: logs, streams: streams, track: track, rechecks: again, maxFollow: maxFollow, now: time.Now}
}

// New implements [rest.Storage]. As with the log of a Pod it is the parent's kind;
// what is sent is plain text.
func (*LogREST) New() runtime.Object { return &windows.WindowsInstance{} }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*LogREST) Destroy() {}

// ProducesMIMETypes implements [rest.StorageMetadata].
func (*LogREST) ProducesMIMETypes(string) []string { return []string{"text/plain", "application/json"} }

// ProducesObject implements [rest.StorageMetadata].
func (*LogREST) ProducesObject(string) any { return "" }

// OverrideMetricsVerb keeps streams, which last as long as somebody reads, out of
// the latencies of GET.
func (*LogREST) OverrideMetricsVerb(verb string) string {
	if verb == "GET" {
		return "CONNECT"
	}
	return verb
}

// NewGetOptions implements [rest.GetterWithOptions]. It sets the defaults, because
// the generic code does not when a request has no query string at all.
func (*LogREST) NewGetOptions() (runtime.Object, bool, string) {
	return &windows.WindowsInstanceLogOptions{CaseSensitive: new(true), Output: api.LogOutputText}, false, ""
}

// Get implements [rest.GetterWithOptions].
func (r *LogREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, err := base.As[*windows.WindowsInstanceLogOptions](options)
	if err != nil {
		return nil, err
	}
	admitted, err := admit(ctx, r.streams, limits.Logs, name, 1)
	if err != nil {
		return nil, err
	}
	s, err := r.open(ctx, name, o, admitted)
	if err != nil {
		admitted.Release()
		return nil, err
	}
	return s, nil
}

// open opens a log that was admitted. The streamer releases it.
func (r *LogREST) open(ctx context.Context, name string, o *windows.WindowsInstanceLogOptions, admitted *limits.Stream) (*logStreamer, error) {
	request, errs := logRequest(o, r.now())
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(windows.Kind("WindowsInstanceLogOptions"), name, errs)
	}
	instance, err := getKnown(ctx, r.instances, name)
	if err != nil {
		return nil, err
	}
	log, err := r.logs.OpenLog(ctx, instance, request)
	if err != nil {
		return nil, err
	}
	s := &logStreamer{stream: log, request: request, cut: cutOf(ctx)}
	s.close = sync.OnceFunc(func() { _ = log.Close() }) // the error says that the connection was closed before
	memory, untrack := r.track(instance.Namespace, userOrUnknown(ctx))
	s.memory = memory
	admitted.OnDrain(s.drain, s.breakOff)
	if request.Follow && r.maxFollow > 0 {
		s.timer = time.AfterFunc(r.maxFollow, log.Stop)
	}
	lasts, over := context.WithCancel(ctx)
	s.end = sync.OnceFunc(func() {
		over()
		if s.timer != nil {
			s.timer.Stop()
		}
		s.close()
		untrack()
		admitted.Release()
	})
	// However the request ends, the stream ends with it.
	context.AfterFunc(ctx, s.end)
	go s.watch(lasts, r.rechecks, instance)
	return s, nil
}

// logStreamer hands a stream to the server, which calls InputStream once.
type logStreamer struct {
	stream   LogStream
	request  api.LogRequest
	timer    *time.Timer // ends a follow that must not last; nil when it may
	draining atomic.Bool
	// revoked is why the stream must not go on.
	revoked atomic.Pointer[string]
	memory  *relief.Stream
	// close ends the stream on the host, end releases everything that it holds, and cut breaks off the
	// answer to the client.
	close, end, cut func()
}

var _ rest.ResourceStreamer = &logStreamer{}

// GetObjectKind implements [runtime.Object]; the server needs one.
func (*logStreamer) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]. There is nothing to copy in a stream.
func (s *logStreamer) DeepCopyObject() runtime.Object { return s }

// InputStream implements [rest.ResourceStreamer]. A follow is flushed after every
// read, which brings whole lines; flushing each line costs most of the throughput.
func (s *logStreamer) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	mimeType := "text/plain; charset=utf-8"
	if s.request.Output == api.LogOutputJSON {
		mimeType = "application/json"
	}
	return &logReader{logStreamer: s}, s.request.Follow, mimeType, nil
}

// drain ends the stream because the server stops.
func (s *logStreamer) drain() {
	s.draining.Store(true)
	s.stream.Stop()
}

// breakOff ends the stream at once, which its client notices.
func (s *logStreamer) breakOff() {
	s.close()
	s.cut()
}

// revoke ends the stream because it must not go on.
func (s *logStreamer) revoke(err error) {
	s.revoked.Store(new(err.Error()))
	s.close()
}

// watch ends the stream when it must not go on, or when its client reads nothing.
func (s *logStreamer) watch(lasts context.Context, r *rechecks, instance *v1alpha1.WindowsInstance) {
	err := r.watch(lasts, s.memory.Relieved(), r.still(verbGet, instance), recheck.Taking(&s.memory.Backlog))
	if err == nil {
		return
	}
	s.revoke(err)
	// The client gets a while to take the reason, if it takes anything at all.
	select {
	case <-r.clock.After(stream.DefaultLinger):
		s.cut()
	case <-lasts.Done():
	}
}

// farewell is the last line of a follow that ended because the server stops, or as failed because it must
// not go on; empty when it ended for another reason.
func (s *logStreamer) farewell(failed error) string {
	revoked := s.revoked.Load()
	asJSON := s.request.Output == api.LogOutputJSON
	switch {
	case !s.request.Follow:
		return ""
	case failed != nil && revoked != nil && asJSON:
		end, err := json.Marshal(map[string]string{"end": *revoked})
		if err != nil {
			return "" // which text never is
		}
		return string(end) + "\n"
	case failed != nil && revoked != nil:
		return "# end: " + words.OneLine(*revoked) + "\n"
	case failed != nil || !s.draining.Load():
		return ""
	case asJSON:
		return `{"end":"the server is shutting down; continue with the cursor"}` + "\n"
	}
	return "# end: the server is shutting down; continue with the cursor above\n"
}

// logReader reads the stream and the farewell after it.
type logReader struct {
	*logStreamer
	// last is what is left of the farewell, nil before the end of the stream.
	last *strings.Reader
	// handed says that what was read last is on its way to the client.
	handed bool
}

// Read implements [io.Reader].
func (r *logReader) Read(p []byte) (int, error) {
	if r.handed {
		r.handed = false
		r.memory.Backlog.End()
	}
	n, err := r.read(p)
	if n > 0 {
		r.handed = true
		r.memory.Backlog.Begin()
	}
	return n, err
}

func (r *logReader) read(p []byte) (int, error) {
	if r.last != nil {
		return r.last.Read(p)
	}
	n, err := r.stream.Read(p)
	if err == nil {
		return n, nil
	}
	last := ""
	if last, err = r.finish(err); err == nil {
		r.last = strings.NewReader(last)
	}
	return n, err
}

// finish returns the farewell of a stream that ended with err, or the error of one that broke off.
func (r *logReader) finish(err error) (string, error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	last := r.farewell(err)
	if err != nil && last == "" {
		// Whoever gets a part of a log must not take it for all.
		r.cut()
		return "", err
	}
	return last, nil
}

// WriteTo implements [io.WriterTo], which saves a large log a copy.
func (r *logReader) WriteTo(w io.Writer) (int64, error) {
	to := &owing{w, &r.memory.Backlog}
	n, err := io.Copy(to, r.stream)
	last, err := r.finish(err)
	if err != nil {
		return n, err
	}
	m, err := io.WriteString(to, last)
	return n + int64(m), err
}

// owing writes what a client is owed until it was written.
type owing struct {
	io.Writer
	backlog *stream.Backlog
}

// Write implements [io.Writer].
func (o *owing) Write(p []byte) (int, error) {
	o.backlog.Begin()
	defer o.backlog.End()
	return o.Writer.Write(p)
}

// Close implements [io.Closer].
func (r *logReader) Close() error {
	r.end()
	return nil
}
