// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
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
	streams   *Streams
	maxFollow time.Duration
	now       func() time.Time
}

var (
	_ rest.GetterWithOptions = &LogREST{}
	_ rest.StorageMetadata   = &LogREST{}
)

var _ io.WriterTo = &logReader{}

func newLogREST(instances rest.Getter, logs LogOpener, streams *Streams, maxFollow time.Duration) *LogREST {
	return &LogREST{instances: instances, logs: logs, streams: streams, maxFollow: maxFollow, now: time.Now}
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
	request, errs := logRequest(o, r.now())
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(windows.Kind("WindowsInstanceLogOptions"), name, errs)
	}
	instance, err := getKnown(ctx, r.instances, name)
	if err != nil {
		return nil, err
	}
	release, err := r.streams.admit(StreamLogs, types.NamespacedName{Namespace: instance.Namespace, Name: instance.Name}, userOrUnknown(ctx), 1)
	if err != nil {
		return nil, err
	}
	stream, err := r.logs.OpenLog(ctx, instance, request)
	if err != nil {
		release()
		return nil, err
	}
	s := &logStreamer{stream: stream, request: request}
	untrack := r.streams.track(s.drain)
	if request.Follow && r.maxFollow > 0 {
		s.timer = time.AfterFunc(r.maxFollow, stream.Stop)
	}
	s.end = sync.OnceFunc(func() {
		if s.timer != nil {
			s.timer.Stop()
		}
		_ = stream.Close() // the error says that the connection was closed before
		untrack()
		release()
	})
	// However the request ends, the stream ends with it.
	context.AfterFunc(ctx, s.end)
	return s, nil
}

// logStreamer hands a stream to the server, which calls InputStream once.
type logStreamer struct {
	stream   LogStream
	request  api.LogRequest
	timer    *time.Timer // ends a follow that must not last; nil when it may
	draining atomic.Bool
	// end releases everything that the stream holds.
	end func()
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

// farewell is the last line when the stream ended because the server stops; empty when it
// ended for another reason.
func (s *logStreamer) farewell() string {
	switch {
	case !s.draining.Load() || !s.request.Follow:
		return ""
	case s.request.Output == api.LogOutputJSON:
		return `{"end":"the server is shutting down; continue with the cursor"}` + "\n"
	}
	return "# end: the server is shutting down; continue with the cursor above\n"
}

// logReader reads the stream and, when the server stops, the reason after it.
type logReader struct {
	*logStreamer
	// last is what is left of the farewell, nil before the end of the stream.
	last *strings.Reader
}

// Read implements [io.Reader].
func (r *logReader) Read(p []byte) (int, error) {
	if r.last != nil {
		return r.last.Read(p)
	}
	n, err := r.stream.Read(p)
	if errors.Is(err, io.EOF) {
		r.last, err = strings.NewReader(r.farewell()), nil
	}
	return n, err
}

// WriteTo implements [io.WriterTo], which saves a large log a copy.
func (r *logReader) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, r.stream)
	if err != nil {
		return n, err
	}
	m, err := io.WriteString(w, r.farewell())
	return n + int64(m), err
}

// Close implements [io.Closer].
func (r *logReader) Close() error {
	r.end()
	return nil
}
