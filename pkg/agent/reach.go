// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// reachTimeout bounds a try as a whole: a firewall that drops packets answers nothing.
const reachTimeout = 10 * time.Second

// reachCommand tries whether the API server answers this host. It needs nothing of the operating system but what
// every program of Go has of it, which the kubelet is as well.
func reachCommand(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var request api.ReachRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	answer, err := reach(ctx, request)
	if err != nil {
		return err
	}
	return writeJSON(stdout, answer)
}

// reach makes one request to the API server, without credentials. The error is about what was asked.
func reach(ctx context.Context, request api.ReachRequest) (*api.ReachAnswer, error) {
	server, err := url.Parse(request.URL)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return nil, errors.New("the URL of the API server is not one of https")
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(request.CA)) {
		return nil, errors.New("there is no certificate that verifies the API server")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}
	way := &way{layer: api.ReachDNS, address: addressOf(server)}
	if len(request.Proxy) > 0 {
		proxy, err := url.Parse(string(request.Proxy))
		if err != nil || proxy.Hostname() == "" {
			return nil, errors.New("the URL of the proxy cannot be read")
		}
		transport.Proxy = http.ProxyURL(proxy)
		way.address, way.proxied = addressOf(proxy), true
	}
	defer transport.CloseIdleConnections()
	asked, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, way.trace()), http.MethodHead, server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return nil, errors.New("the URL of the API server cannot be asked")
	}
	response, err := transport.RoundTrip(asked)
	if err != nil {
		return way.failed(err), nil
	}
	_ = response.Body.Close()
	return &api.ReachAnswer{Address: way.at()}, nil
}

// addressOf is where a URL leads, with the port.
func addressOf(u *url.URL) string {
	port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// way is how far a request came. The transport tells it from several goroutines.
type way struct {
	proxied bool

	mu      sync.Mutex // guards what follows
	layer   api.ReachLayer
	address string
	// cause is the error of the last layer, where that says more than the one of the request.
	cause error
}

func (w *way) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSDone: func(info httptrace.DNSDoneInfo) { w.pass(api.ReachDNS, "", info.Err) },
		ConnectStart: func(_, address string) {
			w.pass(api.ReachConnect, address, nil)
		},
		ConnectDone: func(_, address string, err error) {
			if err != nil {
				w.pass(api.ReachConnect, address, err)
				return
			}
			next := api.ReachTLS
			if w.proxied {
				next = api.ReachProxy
			}
			w.pass(next, address, nil)
		},
		// With a proxy it begins when that has connected.
		TLSHandshakeStart: func() { w.pass(api.ReachTLS, "", nil) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err != nil {
				w.pass(api.ReachTLS, "", err)
				return
			}
			w.pass(api.ReachHTTP, "", nil)
		},
	}
}

// layers are those of a request, in their order.
var layers = []api.ReachLayer{api.ReachDNS, api.ReachConnect, api.ReachProxy, api.ReachTLS, api.ReachHTTP}

// pass notes where the request is. An empty address: where it was. What is told of another address after that was
// connected to says nothing any more.
func (w *way) pass(layer api.ReachLayer, address string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Index(layers, layer) < slices.Index(layers, w.layer) {
		return
	}
	w.layer, w.address, w.cause = layer, cmp.Or(address, w.address), cause
}

func (w *way) at() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.address
}

// failed is the answer where the request has ended with an error.
func (w *way) failed(err error) *api.ReachAnswer {
	w.mu.Lock()
	defer w.mu.Unlock()
	cause := err
	if w.cause != nil {
		cause = w.cause
	}
	return &api.ReachAnswer{Failed: w.layer, Address: w.address, Error: explain(cause)}
}

// explain says what an error is, the same at each try: without local ports and the time.
func explain(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("there was no answer within %s", reachTimeout)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Sprintf("by the clock of the host its certificate has expired or is not valid yet; it is valid from %s to %s",
			invalid.Cert.NotBefore.Format(time.RFC3339), invalid.Cert.NotAfter.Format(time.RFC3339))
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		return operation.Err.Error()
	}
	return err.Error()
}
