// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// reach is how hosts reach the API server: with the authorities that they get, and through the proxy of their variables only where
// a kubelet goes through it.
func (c *Cluster) reach() api.ReachRequest {
	request := api.ReachRequest{URL: c.APIServerURL, CA: string(c.APIServerCA)}
	server, err := url.Parse(c.APIServerURL)
	if err != nil {
		return request // validate refuses it
	}
	proxies := httpproxy.Config{HTTPProxy: c.Proxy.HTTP, HTTPSProxy: c.Proxy.HTTPS, NoProxy: c.Proxy.None}
	// A proxy that cannot be read is used by nobody.
	if proxy, err := proxies.ProxyFunc()(server); err == nil && proxy != nil {
		request.Proxy = config.SecretValue(proxy.String())
	}
	return request
}
