# frozen_string_literal: true

# INTERLOCK_URL=https://… INTERLOCK_TOKEN=il_… ruby worker.rb AGENT
#
# Replace `job` with work of your own. It asks `lease.check!` between steps, or waits with `lease.pause`: both raise the
# moment the run must stop. For a command: `lease.on_stop { Process.kill("TERM", pid) }`.

require "socket"
require_relative "interlock"

$stdout.sync = true
url, token = ENV.values_at("INTERLOCK_URL", "INTERLOCK_TOKEN").map { |value| value unless value.to_s.empty? }
agent = ARGV[0]
abort "usage: INTERLOCK_URL=https://… INTERLOCK_TOKEN=il_… ruby worker.rb AGENT" unless url && token && agent

worker = Interlock::Worker.new(
  Interlock::Server.new(url, token), agent,
  lease_s: ENV.fetch("LEASE_S", "60").to_f, worker: "#{Socket.gethostname}-#{Process.pid}"
)
%w[INT TERM].each { |signal| trap(signal) { Thread.new { worker.stop } } }

# As many steps as the payload says, {"steps": 3, "step_s": 0.1}; messages are read between them.
job = lambda do |lease|
  id = lease.item["id"]
  payload = lease.item["payload"] || {}
  steps, step_s = payload.fetch("steps", 3), payload.fetch("step_s", 0.1)
  messages = 0
  (1..steps).each do |step|
    puts "item #{id}: step #{step} of #{steps}"
    lease.pause(step_s)
    lease.inbox.each do |message|
      puts "item #{id}: told #{message["text"].to_json}"
      messages += 1
    end
  end
  { steps: steps, messages: messages }
end

begin
  worker.work(&job)
rescue Interlock::Problem => e
  abort "#{e.message} #{e.hint}".strip
end
