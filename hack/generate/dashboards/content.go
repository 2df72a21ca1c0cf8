package main

// hits selects the requests whose object came from the pod itself.
const hits = `cache=~"HIT|STALE|UPDATING|REVALIDATED|MEMORY"`

// sampled selects the requests of which a sample is counted. The others went past a disk and are counted one by one.
const sampled = `cache!~"OTHER_DISK|UNCACHED"`

// ofAll turns the rate of a sample into that of all requests.
const ofAll = ` / on (namespace, pod) group_left () max by (namespace, pod) (cachenode_request_sampling_ratio)`

// fromOrigin selects the requests whose object came from the origin.
const fromOrigin = `cache=~"MISS|EXPIRED|BYPASS|NONE"`

const (
	inFleet = `namespace=~"$namespace", cachenode=~"$cachenode"`
	inNode  = inFleet + `, pod=~"$pod"`
	onDisk  = inNode + `, disk="$disk"`
)

// fleet shows all CacheNodes side by side.
var fleet = dashboard{
	uid: "cachenode-fleet", title: "CacheNode / Fleet",
	description: "All CacheNodes side by side. What is counted from requests is a sample; " +
		"divide by cachenode_request_sampling_ratio for absolute rates, as the panels do.",
	variables: []variable{
		{"namespace", "label_values(cachenode_nginx_up, namespace)", true},
		{"cachenode", `label_values(cachenode_nginx_up{namespace=~"$namespace"}, cachenode)`, true},
	},
	rows: []row{
		{title: "Now", panels: []panel{
			{title: "Conditions", description: "1 true, 0 false", kind: "table", unit: "short", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, type, reason) (cachenode_condition{%s, `+
						`type=~"Ready|Accepted|Available|Degraded|Progressing"})`),
					"",
				},
			}},
			{
				title:       "Pods",
				description: "Wanted, ready, and with the wanted revision: the progress of a rollout.",
				unit:        "short",
				queries: []query{
					{
						of(inFleet, `sum by (namespace, cachenode) (cachenode_replicas_wanted{%s})`),
						"{{namespace}}/{{cachenode}} wanted",
					},
					{
						of(inFleet, `sum by (namespace, cachenode) (cachenode_replicas_ready{%s})`),
						"{{namespace}}/{{cachenode}} ready",
					},
					{
						of(inFleet, `sum by (namespace, cachenode) (cachenode_replicas_updated{%s})`),
						"{{namespace}}/{{cachenode}} updated",
					},
				},
			},
			{title: "Disks out of use", unit: "short", queries: []query{
				{of(inFleet, `sum by (namespace, cachenode) (1 - cachenode_disk_up{%s})`), "{{namespace}}/{{cachenode}}"},
			}},
		}},
		{title: "Traffic", panels: []panel{
			{title: "Hit ratio by requests", unit: "percentunit", queries: []query{
				{ratio("cachenode_requests_total", inFleet, "namespace, cachenode"), "{{namespace}}/{{cachenode}}"},
			}},
			{title: "Hit ratio by bytes", unit: "percentunit", queries: []query{
				{ratio("cachenode_response_bytes_total", inFleet, "namespace, cachenode"), "{{namespace}}/{{cachenode}}"},
			}},
			{title: "Throughput to clients", unit: "Bps", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode) (rate(cachenode_response_bytes_total{%s, `+sampled+
						`}[$__rate_interval])`+ofAll+`)`),
					"{{namespace}}/{{cachenode}}",
				},
				{
					of(inFleet, `sum by (namespace, cachenode) (rate(cachenode_response_bytes_total{%s, `+
						`cache=~"OTHER_DISK|UNCACHED"}[$__rate_interval]))`),
					"{{namespace}}/{{cachenode}} past a disk",
				},
			}},
			{
				title:       "Requests",
				description: "nginx's own counter; probes and what the memory tier asks itself are in it",
				unit:        "reqps",
				queries: []query{
					{
						of(inFleet, `sum by (namespace, cachenode) `+
							`(rate(cachenode_nginx_requests_total{%s}[$__rate_interval]))`),
						"{{namespace}}/{{cachenode}}",
					},
				},
			},
			{title: "Time to the first byte, 99th percentile", unit: "s", queries: []query{
				{
					of(inFleet, `histogram_quantile(0.99, sum by (namespace, cachenode, from, le) `+
						`(rate(cachenode_first_byte_seconds_bucket{%s}[$__rate_interval])))`),
					"{{namespace}}/{{cachenode}} {{from}}",
				},
			}},
			{title: "Origin: 5xx", description: "Share of what the origin was asked for", unit: "percentunit", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode) `+
						`(rate(cachenode_origin_responses_total{%s, class="5xx"}[$__rate_interval])) / `+
						`sum by (namespace, cachenode) (rate(cachenode_origin_responses_total{%s}[$__rate_interval]))`),
					"{{namespace}}/{{cachenode}}",
				},
			}},
		}},
		{title: "Pods that share keys", panels: []panel{
			{title: "Share of the keys", description: "1 for a pod that shares none", unit: "percentunit", queries: []query{
				{of(inFleet, `cachenode_key_share_ratio{%s}`), "{{namespace}}/{{pod}}"},
			}},
			{title: "Answered by another pod", unit: "reqps", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, hop) (rate(cachenode_hops_total{%s}[$__rate_interval])`+ofAll+`)`),
					"{{namespace}}/{{cachenode}} {{hop}}",
				},
			}},
			{title: "Bytes over hops", unit: "Bps", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, ordinal) `+
						`(rate(cachenode_hop_bytes_total{%s}[$__rate_interval])`+ofAll+`)`),
					"{{namespace}}/{{cachenode}} from pod {{ordinal}}",
				},
			}},
			{title: "Not answered in time", description: "Another pod stands in", unit: "reqps", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, ordinal) `+
						`(rate(cachenode_hops_unanswered_total{%s}[$__rate_interval])`+ofAll+`)`),
					"{{namespace}}/{{cachenode}} pod {{ordinal}}",
				},
			}},
			{
				title: "Not asked any more", description: "nginx skips a disk of a pod for ten seconds", unit: "none",
				queries: []query{{
					of(inFleet, `sum by (namespace, cachenode, ordinal, disk) (cachenode_hop_breaker_open{%s})`),
					"{{namespace}}/{{cachenode}} pod {{ordinal}} {{disk}}",
				}},
			},
			{title: "Keys that moved: filled from", unit: "ops", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, source) (rate(cachenode_fills_total{%s}[$__rate_interval]))`),
					"{{namespace}}/{{cachenode}} {{source}}",
				},
			}},
		}},
		{title: "Disks", panels: []panel{
			{title: "In use", unit: "percentunit", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode) (cachenode_disk_used_bytes{%s}) / `+
						`sum by (namespace, cachenode) (cachenode_disk_size_bytes{%s})`),
					"{{namespace}}/{{cachenode}}",
				},
			}},
			{title: "Queue overflows", unit: "ops", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode) `+
						`(rate(cachenode_thread_pool_overflows_total{%s}[$__rate_interval]))`),
					"{{namespace}}/{{cachenode}}",
				},
			}},
			{title: "Reloads", unit: "short", queries: []query{
				{
					of(inFleet, `sum by (namespace, cachenode, result) `+
						`(increase(cachenode_reloads_total{%s}[$__rate_interval]))`),
					"{{namespace}}/{{cachenode}} {{result}}",
				},
			}},
		}},
	},
}

// cacheNode shows one CacheNode or pod, with a row for each disk.
var cacheNode = dashboard{
	uid: "cachenode-node", title: "CacheNode / Node",
	description: "One CacheNode, with a row for each disk.",
	variables: []variable{
		{"namespace", "label_values(cachenode_nginx_up, namespace)", false},
		{"cachenode", `label_values(cachenode_nginx_up{namespace=~"$namespace"}, cachenode)`, false},
		{"pod", `label_values(cachenode_nginx_up{namespace=~"$namespace", cachenode=~"$cachenode"}, pod)`, true},
		{"disk", `label_values(cachenode_disk_up{namespace=~"$namespace", cachenode=~"$cachenode"}, disk)`, true},
	},
	rows: []row{
		{title: "All disks", panels: []panel{
			{title: "State of the disks", kind: "state-timeline", unit: "short", queries: []query{
				{of(inNode, `max by (pod, disk) (cachenode_disk_up{%s})`), "{{pod}} {{disk}}"},
			}},
			{
				title:       "Requests by answer",
				description: "MEMORY: the memory tier; OTHER_DISK, UNCACHED: past a disk that could not serve",
				unit:        "reqps",
				stacked:     true,
				queries: []query{
					{
						of(inNode, `sum by (cache) (rate(cachenode_requests_total{%s, `+sampled+
							`}[$__rate_interval])`+ofAll+`)`),
						"{{cache}}",
					},
					{
						of(inNode, `sum by (cache) (rate(cachenode_requests_total{%s, `+
							`cache=~"OTHER_DISK|UNCACHED"}[$__rate_interval]))`),
						"{{cache}}",
					},
				},
			},
			{
				title:       "Origin offload",
				description: "Share of the bytes that the origin did not have to send",
				unit:        "percentunit",
				queries: []query{
					{
						of(inNode, `1 - sum(rate(cachenode_response_bytes_total{%s, `+fromOrigin+
							`}[$__rate_interval])) / sum(rate(cachenode_response_bytes_total{%s, `+sampled+
							`}[$__rate_interval]))`),
						"offload",
					},
				},
			},
			{title: "Hit ratio", unit: "percentunit", queries: []query{
				{ratio("cachenode_requests_total", inNode, "pod"), "{{pod}} requests"},
				{ratio("cachenode_response_bytes_total", inNode, "pod"), "{{pod}} bytes"},
			}},
			{title: "Connections", unit: "short", stacked: true, queries: []query{
				{of(inNode, `sum by (state) (cachenode_nginx_connections{%s})`), "{{state}}"},
			}},
			{
				title:       "Revision",
				description: "Pods by the revision that they run: the progress of a rollout",
				unit:        "short",
				stacked:     true,
				queries: []query{
					{of(inNode, `count by (revision) (cachenode_config_info{%s})`), "{{revision}}"},
				},
			},
		}},
		{title: "$disk", repeat: "disk", panels: []panel{
			{
				title:       "$disk: time to the first byte of hits",
				description: "Sampled, in steps of a millisecond",
				kind:        "heatmap",
				unit:        "s",
				queries: []query{
					{
						of(onDisk, `sum by (le) `+
							`(increase(cachenode_first_byte_seconds_bucket{%s, from="cache"}[$__rate_interval]))`),
						"{{le}}",
					},
				},
			},
			{title: "$disk: hit ratio", unit: "percentunit", queries: []query{
				{ratio("cachenode_requests_total", onDisk, "pod"), "{{pod}}"},
			}},
			{title: "$disk: bytes from the cache", unit: "Bps", queries: []query{
				{
					of(onDisk, `sum by (pod) (rate(cachenode_response_bytes_total{%s, `+hits+
						`}[$__rate_interval])`+ofAll+`)`),
					"{{pod}}",
				},
			}},
			{title: "$disk: fill", unit: "bytes", queries: []query{
				{of(onDisk, `cachenode_disk_used_bytes{%s}`), "{{pod}} used"},
				{of(onDisk, `cachenode_disk_free_bytes{%s}`), "{{pod}} free"},
				{of(onDisk, `cachenode_cache_size_bytes{%s}`), "{{pod}} cache"},
			}},
			{title: "$disk: probes, 99th percentile", unit: "s", queries: []query{
				{
					of(onDisk, `histogram_quantile(0.99, sum by (pod, le) `+
						`(rate(cachenode_disk_probe_duration_seconds_bucket{%s}[$__rate_interval])))`),
					"{{pod}}",
				},
			}},
			{title: "$disk: overflows and errors", unit: "ops", queries: []query{
				{of(onDisk, `rate(cachenode_thread_pool_overflows_total{%s}[$__rate_interval])`), "{{pod}} overflows"},
				{of(onDisk, `rate(cachenode_disk_errors_total{%s}[$__rate_interval])`), "{{pod}} errors"},
				{
					of(onDisk, `sum by (pod) (rate(cachenode_disk_probe_failures_total{%s}[$__rate_interval]))`),
					"{{pod}} probes failed",
				},
			}},
		}},
	},
}

// ratio returns the share of hits in a counter, by labels.
func ratio(counter, choice, by string) string {
	return of(choice, `sum by (`+by+`) (rate(`+counter+`{%s, `+hits+`}[$__rate_interval])) / `+
		`sum by (`+by+`) (rate(`+counter+`{%s, `+sampled+`}[$__rate_interval]))`)
}
