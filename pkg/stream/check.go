// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// The protocols that are served.
var (
	execWebSocketProtocols    = []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}
	forwardWebSocketProtocols = []string{portforward.WebsocketsSPDYTunnelingPortForwardV1}
)

const (
	execSPDYProtocol    = remotecommand.StreamProtocolV4Name
	forwardSPDYProtocol = portforward.PortForwardV1Name
)

// CheckExec says what keeps ServeExec from upgrading a request. Ask it before a
// command is started: clients try one protocol after the other, and the command must
// not run for each of them.
func CheckExec(r *http.Request) error {
	return check(r, execWebSocketProtocols, execSPDYProtocol)
}

// CheckPortForward says what keeps ServePortForward from upgrading a request.
func CheckPortForward(r *http.Request) error {
	return check(r, forwardWebSocketProtocols, forwardSPDYProtocol)
}

func check(r *http.Request, webSocket []string, spdyProtocol string) error {
	switch {
	case r.ProtoMajor != 1:
		return fmt.Errorf("streams need HTTP/1.1: %s connections cannot be upgraded", r.Proto)
	case !httpstream.IsUpgradeRequest(r):
		return errors.New("this is for clients that upgrade the connection to WebSocket or SPDY/3.1, as kubectl does")
	case wsstream.IsWebSocketRequest(r):
		return checkWebSocket(r, webSocket)
	case strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31):
		return checkProtocol("SPDY", commaSeparated(r.Header.Values(httpstream.HeaderProtocolVersion)), []string{spdyProtocol})
	default:
		return fmt.Errorf("cannot upgrade the connection to %q: only WebSocket and SPDY/3.1 are spoken here", r.Header.Get(httpstream.HeaderUpgrade))
	}
}

func checkWebSocket(r *http.Request, protocols []string) error {
	if r.Method != http.MethodGet {
		return fmt.Errorf("a WebSocket is opened with GET, not %s", r.Method)
	}
	if r.Header.Get("Sec-Websocket-Version") != "13" || r.Header.Get("Sec-Websocket-Key") == "" {
		return errors.New("a WebSocket needs the headers Sec-WebSocket-Version: 13 and Sec-WebSocket-Key")
	}
	return checkProtocol("WebSocket", websocket.Subprotocols(r), protocols)
}

func checkProtocol(what string, offered, supported []string) error {
	if slices.ContainsFunc(offered, func(p string) bool { return slices.Contains(supported, p) }) {
		return nil
	}
	return fmt.Errorf("the client offers the %s protocols %q, of which none is supported: %s", what, offered, strings.Join(supported, ", "))
}

func commaSeparated(values []string) []string {
	var parts []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return parts
}
