// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"io"
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
)

// LogOpener opens logs on hosts.
type LogOpener interface {
	// OpenLog returns once the host has found what is asked for and is about to
	// send it, so that every refusal is still an HTTP error; errors are
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
// nobody else does when a request has no query string at all.
func (*LogREST) NewGetOptions() (runtime.Object, bool, string) {
	sensitive := true
	return &windows.WindowsInstanceLogOptions{CaseSensitive: &sensitive, Output: api.LogOutputText}, false, ""
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
	instance, err := getServed(ctx, r.instances, name)
	if err != nil {
		return nil, err
	}
	release, err := r.streams.admit(StreamLogs, instance.Namespace+"/"+instance.Name, userOrUnknown(ctx))
	if err != nil {
		return nil, err
	}
	stream, err := r.logs.OpenLog(ctx, instance, request)
	if err != nil {
		release()
		return nil, err
	}
	s := &logStreamer{stream: stream, request: request, release: release}
	s.untrack = r.streams.track(s.drain)
	if request.Follow && r.maxFollow > 0 {
		s.timer = time.AfterFunc(r.maxFollow, stream.Stop)
	}
	// Whatever becomes of the request, the stream ends with it.
	context.AfterFunc(ctx, func() { s.end() })
	return s, nil
}

// logStreamer hands a stream to the server, which calls InputStream once.
type logStreamer struct {
	stream   LogStream
	request  api.LogRequest
	release  func()
	untrack  func()
	timer    *time.Timer
	draining atomic.Bool
	ended    sync.Once
}

var _ rest.ResourceStreamer = &logStreamer{}

// GetObjectKind implements [runtime.Object]; the server wants one.
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

// drain ends the stream because the server is stopping.
func (s *logStreamer) drain() {
	s.draining.Store(true)
	s.stream.Stop()
}

// end gives everything back that the stream holds.
func (s *logStreamer) end() {
	s.ended.Do(func() {
		if s.timer != nil {
			s.timer.Stop()
		}
		// The error says that the connection was already gone.
		_ = s.stream.Close()
		s.untrack()
		s.release()
	})
}

// logReader reads the stream and, when the server stops, the reason after it.
type logReader struct {
	*logStreamer
	farewell []byte
	over     bool
}

// Read implements [io.Reader].
func (r *logReader) Read(p []byte) (int, error) {
	if r.over {
		n := copy(p, r.farewell)
		r.farewell = r.farewell[n:]
		if len(r.farewell) == 0 {
			return n, io.EOF
		}
		return n, nil
	}
	n, err := r.stream.Read(p)
	if errors.Is(err, io.EOF) && r.draining.Load() && r.request.Follow {
		r.over, r.farewell = true, farewell(r.request.Output)
		return n, nil
	}
	return n, err
}

// WriteTo implements [io.WriterTo], which saves a large log a copy.
func (r *logReader) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, r.stream)
	if err == nil && r.draining.Load() && r.request.Follow {
		var m int
		m, err = w.Write(farewell(r.request.Output))
		n += int64(m)
	}
	return n, err
}

// Close implements [io.Closer].
func (r *logReader) Close() error {
	r.end()
	return nil
}

// farewell is the last line of a stream that ends because the server stops.
func farewell(output string) []byte {
	if output == api.LogOutputJSON {
		return []byte(`{"end":"the server is shutting down; continue with the cursor"}` + "\n")
	}
	return []byte("# end: the server is shutting down; continue with the cursor above\n")
}
