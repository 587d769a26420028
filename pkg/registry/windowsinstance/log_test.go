// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// instances is a store with one instance.
type instances struct{}

func (instances) Get(_ context.Context, name string, _ *metav1.GetOptions) (k8sruntime.Object, error) {
	if name != "win-1" {
		return nil, apierrors.NewNotFound(windows.Resource("windowsinstances"), name)
	}
	instance := validInstance()
	loggedIn(instance)
	return instance, nil
}

// openerFunc is a LogOpener.
type openerFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (LogStream, error)

func (f openerFunc) OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (LogStream, error) {
	return f(ctx, instance, request)
}

// scriptedStream gives out what the test writes to it. When it is told to stop it
// sends a last line with a cursor and ends, as a host does.
type scriptedStream struct {
	*io.PipeReader
	host     *io.PipeWriter
	stopOnce sync.Once
	stopped  chan struct{} // closed by Stop
	closed   chan struct{} // closed by Close
	done     sync.WaitGroup
	deaf     bool // it does not end when it is told to
}

func newScriptedStream() *scriptedStream {
	r, w := io.Pipe()
	return &scriptedStream{PipeReader: r, host: w, stopped: make(chan struct{}), closed: make(chan struct{})}
}

func (s *scriptedStream) Stop() {
	s.stopOnce.Do(func() {
		close(s.stopped)
		if s.deaf {
			return
		}
		s.done.Go(func() {
			_, _ = io.WriteString(s.host, "# cursor: abc\n")
			_ = s.host.Close()
		})
	})
}

func (s *scriptedStream) Close() error {
	close(s.closed) // panics the second time: it must be called once
	err := s.PipeReader.Close()
	s.done.Wait()
	return err
}

// logServer is a LogREST over one scripted stream.
func logServer(stream *scriptedStream, maxFollow time.Duration) (*LogREST, *limits.Streams) {
	streams := limits.New(map[limits.Kind]limits.Limits{limits.Logs: {PerUser: 1}})
	opener := openerFunc(func(context.Context, *v1alpha1.WindowsInstance, api.LogRequest) (LogStream, error) {
		return stream, nil
	})
	return newLogREST(instances{}, opener, streams, relief.New().Track, noRechecks(), maxFollow), streams
}

// noRechecks are those of a clock that never ticks.
func noRechecks() *rechecks { return &rechecks{instances{}, nil, newPulse()} }

func openLog(t *testing.T, r *LogREST, ctx context.Context, options *windows.WindowsInstanceLogOptions) (io.ReadCloser, *logStreamer, bool, string) { //nolint:revive // the context is what some tests are about
	t.Helper()
	obj, err := r.Get(ctx, "win-1", options)
	if err != nil {
		t.Fatal(err)
	}
	reader, flush, mimeType, err := obj.(rest.ResourceStreamer).InputStream(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return reader, obj.(*logStreamer), flush, mimeType
}

func following() *windows.WindowsInstanceLogOptions {
	return &windows.WindowsInstanceLogOptions{Query: []string{"kubelet"}, Follow: true}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // between two looks
	}
}

func TestLogErrorsBeforeTheFirstByte(t *testing.T) {
	unreachable := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 503, Details: &metav1.StatusDetails{RetryAfterSeconds: 10}}}
	for _, test := range []struct {
		name     string
		instance string
		options  k8sruntime.Object
		want     int32
		opened   bool
	}{
		{"unknown instance", "win-2", following(), 404, false},
		{"bad options", "win-1", &windows.WindowsInstanceLogOptions{Output: "yaml"}, 422, false},
		{"bad options of an unknown instance", "win-2", &windows.WindowsInstanceLogOptions{Output: "yaml"}, 422, false},
		{"options of another type", "win-1", &windows.WindowsInstance{}, 500, false},
		{"host unreachable", "win-1", following(), 503, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			opened := false
			streams := limits.New(map[limits.Kind]limits.Limits{limits.Logs: {PerUser: 1}})
			r := newLogREST(instances{}, openerFunc(func(context.Context, *v1alpha1.WindowsInstance, api.LogRequest) (LogStream, error) {
				opened = true
				return nil, unreachable
			}), streams, relief.New().Track, noRechecks(), endless)
			_, err := r.Get(as("jane"), test.instance, test.options)
			var status apierrors.APIStatus
			if !asStatus(err, &status) || status.Status().Code != test.want {
				t.Fatalf("got %v, want code %d", err, test.want)
			}
			if opened != test.opened {
				t.Errorf("the host was asked: %v", opened)
			}
			if test.want == 503 && !errors.Is(err, error(unreachable)) {
				t.Errorf("got %v, which is not what the host side said", err)
			}
			if n := streams.Open(); n != 0 {
				t.Errorf("%d streams are counted", n)
			}
		})
	}
}

func TestLogOpensWithTheInstanceAsServed(t *testing.T) {
	stream := newScriptedStream()
	r := newLogREST(instances{}, openerFunc(func(_ context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (LogStream, error) {
		if instance.Name != "win-1" || instance.Namespace != "default" || instance.Spec.Address != "10.0.0.1" || instance.Spec.Port != 22 {
			t.Errorf("got instance %+v", instance)
		}
		if len(request.Queries) != 1 || request.Queries[0] != "kubelet" || !request.Follow {
			t.Errorf("got request %+v", request)
		}
		return stream, nil
	}), limits.New(nil), relief.New().Track, noRechecks(), endless)
	reader, _, _, _ := openLog(t, r, as("jane"), following())
	closeReader(t, reader)
}

func TestLogContentTypeAndFlush(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  *windows.WindowsInstanceLogOptions
		mimeType string
		flush    bool
	}{
		{"text", &windows.WindowsInstanceLogOptions{}, "text/plain; charset=utf-8", false},
		{"json", &windows.WindowsInstanceLogOptions{Output: "json"}, "application/json", false},
		{"follow", following(), "text/plain; charset=utf-8", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := logServer(newScriptedStream(), endless)
			reader, _, flush, mimeType := openLog(t, r, t.Context(), test.options)
			if mimeType != test.mimeType || flush != test.flush {
				t.Errorf("got %q, flush %v", mimeType, flush)
			}
			closeReader(t, reader)
		})
	}
}

func TestLogIsPassedOn(t *testing.T) {
	stream := newScriptedStream()
	r, streams := logServer(stream, endless)
	reader, _, _, _ := openLog(t, r, t.Context(), following())
	stream.done.Go(func() {
		_, _ = io.WriteString(stream.host, "one\ntwo\n")
		_ = stream.host.CloseWithError(errors.New("connection lost"))
	})
	got, err := io.ReadAll(reader)
	if string(got) != "one\ntwo\n" || err == nil || err.Error() != "connection lost" {
		t.Errorf("got %q, %v; a stream that broke must not look complete", got, err)
	}
	closeReader(t, reader)
	if streams.Open() != 0 {
		t.Error("the stream is still counted")
	}
}

// TestFollowEndsInTime covers the name logs, whose requests kube-apiserver cuts.
func TestFollowEndsInTime(t *testing.T) {
	stream := newScriptedStream()
	r, _ := logServer(stream, time.Millisecond)
	reader, _, _, _ := openLog(t, r, t.Context(), following())
	got, err := io.ReadAll(reader) // ends because the stream was told to
	if string(got) != "# cursor: abc\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	select {
	case <-stream.stopped:
	default:
		t.Error("the host was not told to stop")
	}
	closeReader(t, reader)
}

func TestOnlyFollowsOfLogsAreTimed(t *testing.T) {
	for _, test := range []struct {
		name      string
		maxFollow time.Duration
		options   *windows.WindowsInstanceLogOptions
		want      bool
	}{
		{"log", endless, following(), false},
		{"logs", beforeFrontProxyTimeout, following(), true},
		{"logs without follow", beforeFrontProxyTimeout, &windows.WindowsInstanceLogOptions{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := logServer(newScriptedStream(), test.maxFollow)
			reader, streamer, _, _ := openLog(t, r, t.Context(), test.options)
			if got := streamer.timer != nil; got != test.want {
				t.Errorf("timed: %v, want %v", got, test.want)
			}
			closeReader(t, reader)
		})
	}
	if beforeFrontProxyTimeout >= time.Minute {
		t.Errorf("kube-apiserver cuts after 60 s, which is before %s", beforeFrontProxyTimeout)
	}
}

func TestFarewell(t *testing.T) {
	for _, test := range []struct {
		name    string
		options *windows.WindowsInstanceLogOptions
		want    string
	}{
		{"text", following(), "# cursor: abc\n# end: the server is shutting down; continue with the cursor above\n"},
		{"json", &windows.WindowsInstanceLogOptions{Query: []string{"a"}, Follow: true, Output: "json"}, "# cursor: abc\n" + `{"end":"the server is shutting down; continue with the cursor"}` + "\n"},
		{"not following", &windows.WindowsInstanceLogOptions{Query: []string{"a"}}, "# cursor: abc\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := newScriptedStream()
			r, streams := logServer(stream, endless)
			reader, _, _, _ := openLog(t, r, t.Context(), test.options)
			drained := make(chan error, 1)
			go func() { drained <- streams.Drain(t.Context()) }()
			got, err := io.ReadAll(io.LimitReader(&smallReads{reader}, 1<<16))
			if string(got) != test.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
			select {
			case err := <-drained:
				t.Fatalf("drained with %v before the reader was done", err)
			default:
			}
			closeReader(t, reader)
			if err := <-drained; err != nil {
				t.Error(err)
			}
			if _, err := r.Get(t.Context(), "win-1", following()); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("a new stream while stopping: got %v", err)
			}
		})
	}
}

// TestDrainBreaksOff: a download that does not end while the server stops is broken off, so that it holds up nothing else.
func TestDrainBreaksOff(t *testing.T) {
	stream := newScriptedStream()
	stream.deaf = true
	r, streams := logServer(stream, endless)
	cut := make(chan struct{})
	ctx := context.WithValue(as("jane"), cutKey{}, sync.OnceFunc(func() { close(cut) }))
	reader, _, _, _ := openLog(t, r, ctx, &windows.WindowsInstanceLogOptions{Query: []string{"a"}})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := streams.Drain(canceled); err == nil {
		t.Error("all have ended")
	}
	<-cut
	if _, err := io.Copy(io.Discard, reader); err == nil {
		t.Error("a download that was broken off ends as if it were whole")
	}
	closeReader(t, reader)
}

// smallReads reads a few bytes at a time.
type smallReads struct{ io.Reader }

func (r *smallReads) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 7)]) }

// TestEverythingIsReleased proves that however a stream ends, its place, its
// connection and its goroutines are given back.
func TestEverythingIsReleased(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(reader io.Closer, cancel context.CancelFunc)
	}{
		{"the reader closes", func(reader io.Closer, _ context.CancelFunc) { _ = reader.Close() }},
		{"the reader closes twice", func(reader io.Closer, _ context.CancelFunc) { _ = reader.Close(); _ = reader.Close() }},
		{"the request ends", func(_ io.Closer, cancel context.CancelFunc) { cancel() }},
		{"both", func(reader io.Closer, cancel context.CancelFunc) { cancel(); _ = reader.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			stream := newScriptedStream()
			r, streams := logServer(stream, time.Hour)
			var tracked atomic.Int64
			r.track = counting(&tracked)
			ctx, cancel := context.WithCancel(as("jane"))
			defer cancel()
			reader, _, _, _ := openLog(t, r, ctx, following())
			if _, err := r.Get(as("jane"), "win-1", following()); !apierrors.IsTooManyRequests(err) {
				t.Errorf("a second stream of the same user: got %v", err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, reader)
				ended <- err
			}()
			test.end(reader, cancel)
			if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("reading ended with %v", err)
			}
			<-stream.closed
			eventually(t, "the stream is no longer counted", func() bool { return streams.Open() == 0 })
			if tracked.Load() > 0 {
				t.Error("it would still be ended when memory is short")
			}
			cancel()
			eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// TestClientGoneBeforeTheAnswer covers a request that ends between Get and InputStream.
func TestClientGoneBeforeTheAnswer(t *testing.T) {
	stream := newScriptedStream()
	r, streams := logServer(stream, endless)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Get(ctx, "win-1", following()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-stream.closed
	eventually(t, "the stream is no longer counted", func() bool { return streams.Open() == 0 })
}

func TestLogStorageMetadata(t *testing.T) {
	r := &LogREST{}
	if got := strings.Join(r.ProducesMIMETypes("GET"), " "); got != "text/plain application/json" {
		t.Errorf("produces %q", got)
	}
	if r.OverrideMetricsVerb("GET") != "CONNECT" || r.OverrideMetricsVerb("LIST") != "LIST" {
		t.Error("streams are measured as GET")
	}
	options, path, _ := r.NewGetOptions()
	o := options.(*windows.WindowsInstanceLogOptions)
	if path || o.Output != "text" || o.CaseSensitive == nil || !*o.CaseSensitive {
		t.Errorf("the defaults are %+v, path %v", o, path)
	}
	s := &logStreamer{}
	if s.DeepCopyObject() != k8sruntime.Object(s) || s.GetObjectKind() == nil {
		t.Error("a stream is no object")
	}
}

func closeReader(t *testing.T, reader io.Closer) {
	t.Helper()
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}
