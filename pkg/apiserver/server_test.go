// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	typed "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/storage/etcd"
)

// Users of the tests: who may what is decided by name.
const (
	jane       = "jane"       // may do everything but trust host keys
	admin      = "admin"      // may do everything
	controller = "controller" // the source writer
	broken     = "broken"     // for whom nobody can say what is allowed
	reader     = "reader"     // may get exec and portforward, and not create them
	mallory    = "mallory"    // may do everything but trust host keys and use credentials

	namespaceController = "system:serviceaccount:kube-system:namespace-controller"
)

const groupPath = "/apis/windows.openshift.io/v1alpha1"

// testServer is the API server over an etcd of its own, without the parts that
// need a cluster: who somebody is comes from a header.
type testServer struct {
	url      string
	config   *Config
	sessions *scriptedSessions
	audits   *auditLog

	deleted sync.Map // since when a namespace is being deleted, by its name
}

func (s *testServer) namespaceDeleted(_ context.Context, name string) (time.Time, error) {
	since, _ := s.deleted.Load(name)
	at, _ := since.(time.Time)
	return at, nil
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	s := &testServer{sessions: &scriptedSessions{}, audits: &auditLog{}}
	etcd, err := etcd.StartEmbedded(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)

	options := NewOptions()
	options.Streams.PerUser = 2
	options.Sessions.PerUser = 2
	options.ControllerUsers = []string{controller}
	options.Recommended.SecureServing = nil
	options.Recommended.Authentication = nil
	options.Recommended.Authorization = nil
	options.Recommended.CoreAPI = nil
	options.Recommended.Admission = nil
	options.Recommended.Features.EnablePriorityAndFairness = false
	config, err := options.Config(etcd.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	config.Generic.BuildHandlerChainFunc = genericapiserver.DefaultBuildHandlerChain // there is no kube-apiserver before it
	config.Generic.ExternalAddress = "localhost:443"
	config.Generic.LoopbackClientConfig = &restclient.Config{}
	config.Generic.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: r.Header.Get("X-Test-User"), Groups: []string{"system:authenticated"}}}, true, nil
	})
	config.Generic.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetResource() == "windowshostkeys" && a.GetUser().GetName() != admin {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if a.GetUser().GetName() == mallory && (a.GetVerb() == "use" || a.GetResource() == "secrets") {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if a.GetUser().GetName() == reader && a.GetVerb() == "create" {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if a.GetUser().GetName() == broken && a.GetVerb() == "create" && a.GetSubresource() != "" {
			return authorizer.DecisionNoOpinion, "", errors.New("the authorizer is down")
		}
		return authorizer.DecisionAllow, "", nil
	})
	config.Extra.Hosts = scriptedHosts{LogOpener: scriptedLogs{}, SessionOpener: s.sessions, Planner: scriptedPlanner{}}
	config.Extra.SessionEvents = s.sessions
	config.Extra.Recording.Directory = t.TempDir()
	config.Generic.AuditBackend = s.audits
	config.Generic.AuditPolicyRuleEvaluator = policy.NewPolicyRuleEvaluator(&auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelMetadata}}})
	config.Extra.MachineSets = &scriptedMachineSets{}
	config.Extra.Deleters.NamespaceDeleted = s.namespaceDeleted
	server, err := config.New()
	if err != nil {
		t.Fatal(err)
	}
	server.PrepareRun()
	front := httptest.NewServer(server.Handler)
	t.Cleanup(func() {
		// Streams and watches that a failed test left open would keep it from closing.
		front.CloseClientConnections()
		front.Close()
		server.Destroy()
	})
	s.url, s.config = front.URL, config
	return s
}

// scriptedHosts is the way to hosts, put together from its parts. One that is nil is not used.
type scriptedHosts struct {
	windowsinstance.LogOpener
	windowsinstance.SessionOpener
	windowsinstance.Planner
	windowsinstance.Adopter
	windowsinstance.Releaser
	windowsinstance.Inspector
	windowsinstance.Checker
}

// client is a typed client in the name of somebody.
func (s *testServer) client(t *testing.T, name string) typed.WindowsV1alpha1Interface {
	t.Helper()
	config := &restclient.Config{Host: s.url, QPS: -1, UserAgent: "test", WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("X-Test-User", name)
			return next.RoundTrip(r)
		})
	}}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.WindowsV1alpha1()
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response that was read to its end.
type answer struct {
	code   int
	header http.Header
	body   string
}

// do sends one request, without any client library in between.
func (s *testServer) do(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Test-User", jane)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

// status reads the body as a Status.
func (a answer) status(t *testing.T) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal([]byte(a.body), &status); err != nil || status.Kind != "Status" {
		t.Fatalf("code %d with a body that is no Status: %s", a.code, a.body)
	}
	if int(status.Code) != a.code {
		t.Errorf("code %d with a Status that says %d", a.code, status.Code)
	}
	return status
}

// into decodes the body of a successful answer.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if a.code/100 != 2 {
		t.Fatalf("code %d: %s", a.code, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

func newInstance(name, address string) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsInstanceSpec{Address: address}}
}

func mustCreate(t *testing.T, client typed.WindowsInstanceInterface, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	t.Helper()
	created, err := client.Create(t.Context(), instance, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// mustKnow makes an instance whose host the controller has logged in to.
func mustKnow(t *testing.T, client typed.WindowsInstanceInterface, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	t.Helper()
	created := mustCreate(t, client, instance)
	created.Status.MachineID = "firmware/windows"
	known, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// scriptedLogs are logs that say what they were asked. A follow ends when it is told to.
type scriptedLogs struct{}

func (scriptedLogs) OpenLog(_ context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (windowsinstance.LogStream, error) {
	if instance.Name == "unreachable" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "connection refused",
			Details: &metav1.StatusDetails{Name: instance.Name, RetryAfterSeconds: 10, Causes: []metav1.StatusCause{{Type: "Layer", Message: "Connect"}}},
		}}
	}
	r, w := io.Pipe()
	s := &scriptedLog{PipeReader: r, w: w}
	s.wait.Go(func() {
		_, _ = fmt.Fprintf(w, "host=%s queries=%s output=%s case=%v\n", instance.Spec.Address, strings.Join(request.Queries, ","), request.Output, request.CaseSensitive)
		if !request.Follow {
			_ = w.Close()
		}
	})
	return s, nil
}

type scriptedLog struct {
	*io.PipeReader
	w    *io.PipeWriter
	stop sync.Once
	wait sync.WaitGroup
}

func (s *scriptedLog) Stop() {
	s.stop.Do(func() {
		s.wait.Go(func() {
			_, _ = io.WriteString(s.w, "# cursor: abc\n")
			_ = s.w.Close()
		})
	})
}

func (s *scriptedLog) Close() error {
	err := s.PipeReader.Close()
	s.wait.Wait()
	return err
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // between two looks
	}
}
