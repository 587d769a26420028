// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// The protocols that are served; the first one that a client offers is spoken.
var (
	execProtocols = []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}
	// Clients of other servers only know v4 here. Some of them offer v5 as well, because
	// exec has it, and fail with its messages.
	forwardProtocols = []string{remotecommand.StreamProtocolV4Name, remotecommand.StreamProtocolV5Name}
)

// maxPorts is how many ports one port forward may have.
const maxPorts = 16

// What clients are told that ask for SPDY.
const (
	execNeedsWebSocket = "commands are run over WebSocket only, and this client asks for SPDY. " +
		"Use kubectl windows exec of the release of this server, or a client that opens a WebSocket: with client-go, remotecommand.NewWebSocketExecutor"
	forwardNeedsWebSocket = "ports are forwarded over WebSocket only, one for each connection, and this client asks for SPDY, as kubectl port-forward does. " +
		"Use kubectl windows port-forward of the release of this server"
)

// CheckExec says what keeps ServeExec from upgrading a request. Ask it before a
// command is started: it must not run for a client that cannot be connected with it.
func CheckExec(r *http.Request) *apierrors.StatusError {
	return check(r, execProtocols, execNeedsWebSocket)
}

// CheckPortForward says what keeps ServePortForward from upgrading a request for ports.
func CheckPortForward(r *http.Request, ports []int32) *apierrors.StatusError {
	if err := check(r, forwardProtocols, forwardNeedsWebSocket); err != nil {
		return err
	}
	if len(ports) == 0 || len(ports) > maxPorts {
		return apierrors.NewBadRequest(fmt.Sprintf("the parameter ports names %d ports: from 1 to %d may be forwarded at once", len(ports), maxPorts))
	}
	for i, port := range ports {
		if port < 1 || port > 1<<16-1 {
			return apierrors.NewBadRequest(fmt.Sprintf("%d is no port: they are numbers from 1 to 65535", port))
		}
		if slices.Contains(ports[:i], port) {
			return apierrors.NewBadRequest(fmt.Sprintf("the parameter ports names port %d more than once: open a port forward for each connection to it", port))
		}
	}
	return nil
}

func check(r *http.Request, protocols []string, needsWebSocket string) *apierrors.StatusError {
	offered := websocket.Subprotocols(r)
	switch {
	case r.Method != http.MethodGet, isSPDY(r.Header.Get("Upgrade")), slices.ContainsFunc(offered, isSPDY):
		// A POST, too, is how such clients begin.
		return apierrors.NewBadRequest(needsWebSocket)
	case !websocket.IsWebSocketUpgrade(r):
		return upgradeRequired(r)
	case r.Header.Get("Sec-Websocket-Version") != "13" || !isKey(r.Header.Get("Sec-Websocket-Key")):
		return apierrors.NewBadRequest("a WebSocket needs the headers Sec-WebSocket-Version: 13 and Sec-WebSocket-Key: 16 bytes in base64")
	case choose(r, protocols) == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the client offers the WebSocket protocols %q, of which none is supported: %s", offered, strings.Join(protocols, ", ")))
	}
	return nil
}

// isSPDY says whether a protocol is SPDY, or SPDY in a WebSocket.
func isSPDY(protocol string) bool { return strings.HasPrefix(strings.ToUpper(protocol), "SPDY/") }

// isKey says whether it is a key as RFC 6455 has it, without which nothing is upgraded.
func isKey(key string) bool {
	decoded, err := base64.StdEncoding.DecodeString(key)
	return err == nil && len(decoded) == 16
}

// choose returns the protocol to speak; empty: the client offers none that is served.
func choose(r *http.Request, protocols []string) string {
	offered := websocket.Subprotocols(r)
	for _, protocol := range protocols {
		if slices.Contains(offered, protocol) {
			return protocol
		}
	}
	return ""
}

// reasonUpgradeRequired is that of the refusal of a request in which nothing is wrong but that
// it does not open a WebSocket.
const reasonUpgradeRequired metav1.StatusReason = "UpgradeRequired"

func upgradeRequired(r *http.Request) *apierrors.StatusError {
	message := "this is for clients that upgrade the connection to WebSocket, as kubectl windows does"
	if upgrade := r.Header.Get("Upgrade"); upgrade != "" {
		message = fmt.Sprintf("cannot upgrade the connection to %q: only WebSocket is spoken here", upgrade)
	} else if r.ProtoMajor != 1 {
		message = fmt.Sprintf("streams need HTTP/1.1: %s connections cannot be upgraded", r.Proto)
	}
	err := apierrors.NewBadRequest(message)
	err.ErrStatus.Reason = reasonUpgradeRequired
	return err
}
